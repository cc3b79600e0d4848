import { Page } from '../../components/page.tsx';

export default function AuditPage() {
  return <Page title="AuditPage">{null}</Page>;
}
