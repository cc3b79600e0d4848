import { Page } from '../../components/page.tsx';

export default function ModelsPage() {
  return <Page title="ModelsPage">{null}</Page>;
}
