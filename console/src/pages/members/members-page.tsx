import { Page } from '../../components/page.tsx';

export default function MembersPage() {
  return <Page title="MembersPage">{null}</Page>;
}
