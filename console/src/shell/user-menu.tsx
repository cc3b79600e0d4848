import { ChevronsUpDown, LogOut, Monitor, Moon, Settings, Sun } from 'lucide-react';
import { Menu, MenuItem, MenuSeparator } from '../components/menu.tsx';
import { useAppearance } from '../state/appearance.ts';
import { Link } from '../components/link.tsx';
import { useSession } from '../state/session.tsx';
import { useSignOut } from './sign-out.ts';

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
          <ChevronsUpDown className="size-3.5 shrink-0 text-ink-3" aria-hidden="true" />
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
