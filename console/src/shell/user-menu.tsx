import { ChevronsUpDown, LogOut, Monitor, Moon, Settings, Sun } from 'lucide-react';
import { act, orToast } from '../api/act.ts';
import { Link } from '../components/link.tsx';
import { Menu, MenuItem, MenuSeparator } from '../components/menu.tsx';
import { useAppearance } from '../state/appearance.ts';
import { useSession } from '../state/session.tsx';
import { leave } from '../state/user-storage.ts';

/** The user menu: settings, appearance, sign out. */
export function UserMenu() {
  const { user } = useSession();
  const [appearance, choose] = useAppearance();
  const signOut = useSignOut();
  const next = { system: 'light', light: 'dark', dark: 'system' } as const;
  const icons = { system: <Monitor />, light: <Sun />, dark: <Moon /> };
  return (
    <Menu
      side="top"
      align="start"
      trigger={
        <button
          type="button"
          className="flex h-11 w-full items-center gap-2.5 rounded-lg px-2 text-left transition-colors hover:bg-hover"
        >
          <span
            className="flex size-7 shrink-0 items-center justify-center rounded-full bg-accent-soft text-xs font-semibold text-accent"
            aria-hidden="true"
          >
            {user.name.slice(0, 1).toUpperCase()}
          </span>
          <span className="min-w-0 flex-1">
            <span className="block truncate text-sm leading-4 font-medium">{user.name}</span>
            <span className="block truncate text-2xs text-ink-3">{user.email}</span>
          </span>
          <ChevronsUpDown className="size-3.5 shrink-0 text-ink-3" />
        </button>
      }
    >
      <MenuItem icon={<Settings />} render={<Link to="/settings" />}>
        Settings
      </MenuItem>
      <MenuItem icon={icons[appearance]} onClick={() => choose(next[appearance])}>
        Appearance: {appearance}
      </MenuItem>
      <MenuSeparator />
      <MenuItem icon={<LogOut />} onClick={signOut}>
        Sign out
      </MenuItem>
    </Menu>
  );
}

/** Returns a function that signs the user out and opens the sign-in page. */
export function useSignOut(): () => void {
  const { user } = useSession();
  return () =>
    void orToast(
      act('signOut', undefined).then(() => {
        leave(user.id);
      }),
    );
}
