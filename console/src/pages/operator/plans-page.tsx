import { Page } from '../../components/page.tsx';

export default function PlansPage() {
  return <Page title="PlansPage">{null}</Page>;
}
