import { Page } from '../../components/page.tsx';

export default function PlaygroundPage() {
  return <Page title="PlaygroundPage">{null}</Page>;
}
