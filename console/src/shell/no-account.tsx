import type { LucideIcon } from 'lucide-react';
import { Card } from '../components/card.tsx';
import { Page } from '../components/page.tsx';
import { Empty } from '../components/states.tsx';

/** Replaces an account page for users who are not a member of any account. */
export function NoAccount({ title, icon }: { title: string; icon: LucideIcon }) {
  return (
    <Page title={title}>
      <Card>
        <Empty icon={icon} title="You are not a member of any account">
          Ask an account owner to invite you.
        </Empty>
      </Card>
    </Page>
  );
}
