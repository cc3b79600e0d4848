import { Monitor, Smartphone, SquareTerminal } from 'lucide-react';
import type { ReactNode } from 'react';
import { useLocation, useSearch } from 'wouter';
import { act } from '../../api/act.ts';
import type { ItemOf } from '../../api/client.ts';
import { useList } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { confirm } from '../../components/confirm.tsx';
import { TextField } from '../../components/field.tsx';
import { Form, FormError, useDraft } from '../../components/form.tsx';
import { Page } from '../../components/page.tsx';
import { NewPasswordField, PasswordField } from '../../components/password-field.tsx';
import { Loaded, SkeletonRows } from '../../components/states.tsx';
import { Tabs } from '../../components/tabs.tsx';
import { Time } from '../../components/time.tsx';
import { useSession } from '../../state/session.tsx';
import { leave } from '../../state/user-storage.ts';
import { ConfirmationError, confirmWithPassword } from './confirm-with-password.tsx';
import { deviceOf, type Device } from './device.ts';
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

function Profile() {
  const { user } = useSession();
  const { draft, set, field, busy, error, save } = useDraft({
    initial: { name: user.name },
    submit: async (body): Promise<void> => {
      const { name } = await act('changeMe', { body }, { done: 'Name changed' });
      set({ name });
    },
  });
  return (
    <Card
      title="Profile"
      hint={
        <>
          Joined <Time at={user.created_at} />
        </>
      }
      actions={user.operator && <Badge tone="accent">Operator</Badge>}
    >
      <Form error={error} className="max-w-md space-y-4" onSubmit={() => void save()}>
        <TextField label="Name" autoComplete="name" required maxLength={100} {...field('name')} />
        <TextField
          label="Email"
          type="email"
          readOnly
          value={user.email}
          hint="Used to sign in. Cannot be changed."
        />
        <FormError error={error} />
        <Button type="submit" busy={busy} disabled={draft.name.trim() === user.name}>
          Save
        </Button>
      </Form>
    </Card>
  );
}

function DeleteMe() {
  const { accounts, user } = useSession();
  const left = accounts.map(({ name }) => name).join(', ');
  const ask = () =>
    confirmWithPassword({
      title: 'Delete your user?',
      action: 'Delete user',
      danger: true,
      run: async (body) => {
        await act('deleteMe', { body });
        await leave(user.id);
      },
      children: (
        <>
          <p>
            You are signed out everywhere and can no longer sign in. This cannot be undone; to return, you
            need a new invitation.
          </p>
          {left !== '' && (
            <p>You lose access to {left}. Keys that you created keep working until they are revoked.</p>
          )}
          <p>The audit log keeps your actions under your user ID, without your name.</p>
        </>
      ),
    });
  return (
    <Card
      title="Delete user"
      hint="Deletes your name, email, password and sessions. The accounts you belong to, and their keys, are kept."
    >
      <Button onClick={ask}>Delete user</Button>
    </Card>
  );
}

/** Changes the password, or sets the first one of a user who signed up with a provider. */
function Password() {
  const { user } = useSession();
  const { set, field, busy, error, save } = useDraft({
    initial: { current: '', wanted: '' },
    submit: async ({ current, wanted }): Promise<void> => {
      await act(
        'changePassword',
        { body: { new_password: wanted, ...(user.has_password && { current_password: current }) } },
        { done: 'Password saved. Your other sessions were signed out.' },
      );
      set({ current: '', wanted: '' });
    },
  });
  return (
    <Card
      title="Password"
      hint={
        user.has_password
          ? 'Changing the password signs you out everywhere else.'
          : 'You sign in with a provider. If you set a password, you can also sign in with your email and password.'
      }
    >
      <Form error={error} className="max-w-md space-y-4" onSubmit={() => void save()}>
        {/* Lets password managers identify the user. */}
        <input type="hidden" name="username" autoComplete="username" value={user.email} readOnly />
        {user.has_password && (
          <PasswordField label="Current password" {...field('current', 'current_password')} />
        )}
        <NewPasswordField label="New password" {...field('wanted', 'new_password')} />
        <ConfirmationError error={error} />
        <Button type="submit" busy={busy}>
          {user.has_password ? 'Change password' : 'Set password'}
        </Button>
      </Form>
    </Card>
  );
}

type Session = ItemOf<'listSessions'>;

function Sessions() {
  const sessions = useList('listSessions', undefined);
  const others = sessions.data?.filter(({ current }) => !current).length ?? 0;
  const endOthers = () =>
    confirm({
      title: others === 1 ? 'Sign out the other session?' : `Sign out ${others} other sessions?`,
      action: 'Sign out',
      children: <p>You stay signed in on this device only.</p>,
      run: () => act('endOtherSessions', undefined, { done: 'Signed out all other sessions' }),
    });
  return (
    <Card
      title="Sessions"
      hint="Devices where you are signed in. If you do not recognize one, sign it out and change your password."
      flush
      actions={
        <Button size="small" disabled={others === 0} onClick={() => void endOthers()}>
          Sign out all others
        </Button>
      }
    >
      <Loaded query={sessions} loading={<SkeletonRows rows={3} />}>
        {(loaded) => (
          <ul aria-label="Sessions" className="divide-y divide-line border-t border-line">
            {loaded.map((session) => (
              <SessionItem key={session.id} session={session} />
            ))}
          </ul>
        )}
      </Loaded>
    </Card>
  );
}

const ICONS: Record<Device['kind'], typeof Monitor> = {
  desk: Monitor,
  phone: Smartphone,
  program: SquareTerminal,
};

function SessionItem({ session }: { session: Session }) {
  const {
    id,
    current,
    ip,
    user_agent: userAgent,
    last_active_at: lastActiveAt,
    created_at: createdAt,
  } = session;
  const device = deviceOf(userAgent);
  const Icon = ICONS[device.kind];
  const end = () =>
    confirm({
      title: `Sign out ${device.label}?`,
      action: 'Sign out',
      children: <p>You have to sign in again on that device.</p>,
      run: () => act('endSession', { params: { id } }, { done: 'Session signed out' }),
    });
  return (
    <li className="flex min-h-16 items-center gap-3 px-4 py-3 sm:gap-4 sm:px-5">
      <Icon className="size-5 shrink-0 text-ink-3" />
      <div className="min-w-0 flex-1">
        <p className="flex flex-wrap items-center gap-x-2">
          <span className="truncate font-medium" title={userAgent ?? undefined}>
            {device.label}
          </span>
          {current && <Badge tone="accent">This session</Badge>}
        </p>
        <p className="text-xs leading-5 text-ink-3">
          {ip !== null && <span className="font-mono break-all">{ip}</span>}
          {ip !== null && ', '}
          {current ? (
            'active now'
          ) : (
            <>
              active <Time at={lastActiveAt} relative />
            </>
          )}
          <span className="hidden sm:inline">
            , signed in <Time at={createdAt} relative />
          </span>
        </p>
      </div>
      {!current && (
        <Button size="small" aria-label={`Sign out ${device.label}`} onClick={() => void end()}>
          Sign out
        </Button>
      )}
    </li>
  );
}
