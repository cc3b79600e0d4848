import type { LucideIcon } from 'lucide-react';
import { ButtonLink } from '../components/button.tsx';
import { EmptyState } from '../components/states.tsx';

/** Offers to send the first requests. */
export function NoRequests(props: { icon: LucideIcon; title: string; children: string }) {
  const action = (
    <span className="flex flex-wrap justify-center gap-2">
      <ButtonLink to="/playground" kind="primary">
        Open playground
      </ButtonLink>
      <ButtonLink to="/keys">Create API key</ButtonLink>
    </span>
  );
  return <EmptyState {...props} action={action} />;
}
