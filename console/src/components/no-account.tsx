import type { LucideIcon } from 'lucide-react';
import { useLocation } from 'wouter';
import { ButtonLink } from './button.tsx';
import { Card } from './card.tsx';
import { Page } from './page.tsx';
import { EmptyState } from './states.tsx';
import { useNamedAccount } from '../state/account.ts';
import { useSession } from '../state/session.tsx';

/** Replaces an account page for users without an account, or without access to the one in the URL. */
export function NoAccount({ title, icon }: { title: string; icon: LucideIcon }) {
  const { accounts, user } = useSession();
  const [path] = useLocation();
  const named = useNamedAccount();
  const [first] = accounts;
  const toAccounts = user.operator && <ButtonLink to="/operator/accounts">Go to accounts</ButtonLink>;
  return (
    <Page title={title}>
      <Card>
        {named === null ? (
          <EmptyState icon={icon} title="You are not a member of any account" action={toAccounts}>
            {user.operator
              ? 'As an operator, you can select or create an account.'
              : 'Ask an account owner to invite you.'}
          </EmptyState>
        ) : (
          <EmptyState
            icon={icon}
            title="Account not found"
            action={
              first === undefined ? (
                toAccounts
              ) : (
                <ButtonLink to={`${path}?account=${encodeURIComponent(first.id)}`}>
                  Show {first.name}
                </ButtonLink>
              )
            }
          >
            The account <span className="font-mono text-xs break-all">{named}</span> in the URL does not exist
            {user.operator ? '' : ', or you are not a member of it'}.
          </EmptyState>
        )}
      </Card>
    </Page>
  );
}
