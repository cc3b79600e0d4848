import { Page } from '../../components/page.tsx';

export default function RequestsPage() {
  return <Page title="RequestsPage">{null}</Page>;
}
