import { Page } from '../../components/page.tsx';

export default function AccountsPage() {
  return <Page title="AccountsPage">{null}</Page>;
}
