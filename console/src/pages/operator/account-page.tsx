import { Page } from '../../components/page.tsx';

export default function AccountPage() {
  return <Page title="AccountPage">{null}</Page>;
}
