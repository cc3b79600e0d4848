import { Page } from '../../components/page.tsx';

export default function ResetPasswordPage() {
  return <Page title="ResetPasswordPage">{null}</Page>;
}
