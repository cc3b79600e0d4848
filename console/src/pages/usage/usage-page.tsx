import { Page } from '../../components/page.tsx';

export default function UsagePage() {
  return <Page title="UsagePage">{null}</Page>;
}
