import { Page } from '../../components/page.tsx';

export default function LoadPage() {
  return <Page title="LoadPage">{null}</Page>;
}
