import type { LucideIcon } from 'lucide-react';
import { ButtonLink } from '../components/button.tsx';
import { Card } from '../components/card.tsx';
import { Page } from '../components/page.tsx';
import { EmptyState } from '../components/states.tsx';
import { useSession } from './session.tsx';

/** Replaces an account page for users who are not a member of any account. */
export function NoAccount({ title, icon }: { title: string; icon: LucideIcon }) {
  const { operator } = useSession().user;
  return (
    <Page title={title}>
      <Card>
        <EmptyState
          icon={icon}
          title="You are not a member of any account"
          action={operator && <ButtonLink to="/operator/accounts">Go to accounts</ButtonLink>}
        >
          {operator
            ? 'As an operator, you can select or create an account.'
            : 'Ask an account owner to invite you.'}
        </EmptyState>
      </Card>
    </Page>
  );
}
