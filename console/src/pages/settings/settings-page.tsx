import type { ReactNode } from 'react';
import { useLocation, useSearch } from 'wouter';
import { Page } from '../../components/page.tsx';
import { Tabs } from '../../components/tabs.tsx';
import { Password } from './password.tsx';
import { DeleteMe, Profile } from './profile.tsx';
import { Sessions } from './sessions.tsx';
import { TwoFactor } from './two-factor.tsx';

const TABS = [
  {
    value: 'profile',
    label: 'Profile',
    content: (
      <Parts>
        <Profile />
        <DeleteMe />
      </Parts>
    ),
  },
  {
    value: 'security',
    label: 'Security',
    content: (
      <Parts>
        <Password />
        <TwoFactor />
      </Parts>
    ),
  },
  {
    value: 'sessions',
    label: 'Sessions',
    content: (
      <Parts>
        <Sessions />
      </Parts>
    ),
  },
] as const;

/** The personal settings of the user, independent of the account. */
export default function SettingsPage() {
  const [path, navigate] = useLocation();
  const search = new URLSearchParams(useSearch());
  const wanted = search.get('tab');
  const tab = TABS.find(({ value }) => value === wanted) ?? TABS[0];
  return (
    <Page title="Settings" hint="Your personal settings, for all accounts">
      <Tabs
        label="Settings"
        value={tab.value}
        tabs={TABS}
        onChange={(value) => {
          search.set('tab', value);
          navigate(`${path}?${search}`);
        }}
      />
    </Page>
  );
}

function Parts({ children }: { children: ReactNode }) {
  return <div className="max-w-3xl space-y-5 pt-6">{children}</div>;
}
