import type { LucideIcon } from 'lucide-react';
import { Card } from '../components/card.tsx';
import { Page } from '../components/page.tsx';
import { Empty } from '../components/states.tsx';

/** A page about an account, for somebody who acts for none. */
export function NoAccount({ title, icon }: { title: string; icon: LucideIcon }) {
  return (
    <Page title={title}>
      <Card>
        <Empty icon={icon} title="You act for no account yet">
          Ask an owner of one to invite you.
        </Empty>
      </Card>
    </Page>
  );
}
