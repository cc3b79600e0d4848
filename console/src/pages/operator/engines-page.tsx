import { Page } from '../../components/page.tsx';

export default function EnginesPage() {
  return <Page title="EnginesPage">{null}</Page>;
}
