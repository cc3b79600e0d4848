import { Page } from '../../components/page.tsx';

export default function HealthPage() {
  return <Page title="HealthPage">{null}</Page>;
}
