import { lazy, Suspense, useCallback, useEffect, useState, type ReactNode } from 'react';
import { isApple } from '../components/shortcut-keys.tsx';
import { areSingleKeysOn, OPEN_DIALOG, takesKeys } from '../components/single-keys.ts';

const CommandPalette = lazy(() => import('./command-palette.tsx'));
const ShortcutsDialog = lazy(() => import('./shortcuts-dialog.tsx'));

/** Adds the command menu and the keyboard shortcuts. `children` receives a function that opens the command menu. */
export function Shortcuts({ children }: { children: (openCommands: () => void) => ReactNode }) {
  const [shown, setShown] = useState<'commands' | 'keys' | null>(null);
  const close = useCallback(() => setShown(null), []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing || event.altKey) return;
      const withMod = isApple ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
      if (withMod && !event.shiftKey && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        setShown((now) => (now === 'commands' ? null : isDialogOpen() ? now : 'commands'));
        return;
      }
      if (event.metaKey || event.ctrlKey || takesKeys(event.target) || isDialogOpen()) return;
      if (!areSingleKeysOn()) return;
      if (event.key === '/') {
        event.preventDefault();
        if (!focusSearch()) setShown('commands');
      }
      if (event.key === '?') {
        event.preventDefault();
        setShown('keys');
      }
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  return (
    <>
      {children(useCallback(() => setShown('commands'), []))}
      <Suspense>
        {shown === 'commands' && <CommandPalette onClose={close} onShortcuts={() => setShown('keys')} />}
        {shown === 'keys' && <ShortcutsDialog onClose={close} />}
      </Suspense>
    </>
  );
}

/** Focuses the search field of the page. Returns false if it has none. */
function focusSearch(): boolean {
  const fields = document.querySelectorAll<HTMLInputElement>('#main input[type="search"]:not(:disabled)');
  const field = [...fields].find((one) => one.checkVisibility());
  field?.focus();
  field?.select();
  return field !== undefined;
}

function isDialogOpen(): boolean {
  return document.querySelector(OPEN_DIALOG) !== null;
}
