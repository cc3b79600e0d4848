import { LogOut, Monitor, Moon, Settings, Sun } from 'lucide-react';
import { act, orToast } from '../api/act.ts';
import { Link } from '../components/link.tsx';
import { Menu, MenuItem, MenuSeparator } from '../components/menu.tsx';
import { useAppearance } from '../state/appearance.ts';
import { useSession } from '../state/session.tsx';
import { leave } from '../state/user-storage.ts';
import { MenuButton } from './menu-button.tsx';

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
        <MenuButton
          initial={user.name.slice(0, 1).toUpperCase()}
          look="rounded-full bg-accent-soft text-accent"
          heading={user.name}
          hint={user.email}
        />
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

export function useSignOut(): () => void {
  const { user } = useSession();
  return () => void orToast(act('signOut', undefined).then(() => leave(user.id)));
}
