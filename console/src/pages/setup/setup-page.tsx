import { Page } from '../../components/page.tsx';

export default function SetupPage() {
  return <Page title="SetupPage">{null}</Page>;
}
