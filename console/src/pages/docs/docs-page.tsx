import { Page } from '../../components/page.tsx';

export default function DocsPage() {
  return <Page title="DocsPage">{null}</Page>;
}
