import { Page } from '../../components/page.tsx';

export default function InvitationPage() {
  return <Page title="InvitationPage">{null}</Page>;
}
