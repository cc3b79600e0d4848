import { Dialog } from '@base-ui/react/dialog';
import { Menu as MenuIcon, Search, X } from 'lucide-react';
import { useEffect, useRef, useState, type ReactNode, type RefObject } from 'react';
import { useLocation } from 'wouter';
import { useRead } from '../api/queries.ts';
import { Link } from '../components/link.tsx';
import { Logo } from '../components/logo.tsx';
import { ShortcutKeys } from '../components/shortcut-keys.tsx';
import { OPEN_DIALOG } from '../components/single-keys.ts';
import { menuOf } from '../pages.tsx';
import { useSession } from '../state/session.tsx';
import { AccountSwitch } from './account-switch.tsx';
import { Shortcuts } from './shortcuts.tsx';
import { UserMenu } from './user-menu.tsx';

export function Shell({ banner, children }: { banner: ReactNode; children: ReactNode }) {
  const main = useRef<HTMLElement>(null);
  const [path] = useLocation();
  useResetScrollAndFocus(main, path);
  useKeepFocus(main);
  return (
    <div className="min-h-dvh lg:grid lg:grid-cols-[15rem_minmax(0,1fr)]">
      <a
        href="#main"
        className="sr-only focus:not-sr-only focus:fixed focus:top-3 focus:left-3 focus:z-50 focus:rounded-md focus:bg-raised focus:px-3 focus:py-2 focus:text-sm focus:font-medium"
      >
        Skip to main content
      </a>
      <Shortcuts>
        {(openCommands) => (
          <>
            <aside className="sticky top-0 hidden h-dvh flex-col border-r border-line bg-surface lg:flex">
              <Side onSearch={openCommands} />
            </aside>
            {/* A new React key per path closes the menu on navigation. */}
            <TopBar key={path} onSearch={openCommands} />
          </>
        )}
      </Shortcuts>
      <main
        ref={main}
        id="main"
        tabIndex={-1}
        // A page that fills the window shares it with the banner.
        className="flex min-w-0 flex-col outline-none has-data-fill:h-[calc(100dvh-3.5rem)] has-data-fill:min-h-96 lg:has-data-fill:h-dvh"
      >
        {banner}
        {children}
      </main>
    </div>
  );
}

/**
 * Scrolls to the top and moves the focus to the content after navigation, as a full page load would. On back
 * navigation the browser restores the scroll position.
 */
function useResetScrollAndFocus(main: RefObject<HTMLElement | null>, path: string): void {
  // Opening a request keeps the scroll position of the list behind it.
  const page = path.replace(/^\/requests\/.*/, '/requests');
  const seen = useRef(page);
  const backTo = useRef('');
  useEffect(() => {
    const note = () => {
      backTo.current = location.pathname;
    };
    addEventListener('popstate', note);
    return () => removeEventListener('popstate', note);
  }, []);
  useEffect(() => {
    if (seen.current === page) return;
    seen.current = page;
    if (backTo.current !== location.pathname) scrollTo(0, 0);
    backTo.current = '';
    main.current?.focus({ preventScroll: true });
  }, [main, page]);
}

/**
 * Moves the focus to the open dialog, or to the content, when the focused element is removed, such as the button of a
 * deleted row. The browser would move it to the start of the page.
 */
function useKeepFocus(main: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    let focused: EventTarget | null = null;
    const note = ({ target }: FocusEvent) => {
      focused = target;
    };
    const observer = new MutationObserver(() => {
      if (!(focused instanceof Element) || focused.isConnected) return;
      focused = null;
      // A dialog that closes returns the focus in the next frame.
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          if (document.activeElement !== document.body) return;
          const dialogs = document.querySelectorAll<HTMLElement>(OPEN_DIALOG);
          (dialogs.item(dialogs.length - 1) ?? main.current)?.focus({ preventScroll: true });
        }),
      );
    });
    observer.observe(document.body, { childList: true, subtree: true });
    addEventListener('focusin', note);
    return () => {
      observer.disconnect();
      removeEventListener('focusin', note);
    };
  }, [main]);
}

interface SearchProps {
  onSearch: () => void;
}

function TopBar({ onSearch }: SearchProps) {
  const [open, setOpen] = useState(false);
  return (
    <header className="sticky top-0 z-30 flex h-14 items-center justify-between border-b border-line bg-surface px-4 lg:hidden">
      <Link to="/" className="flex items-center gap-2.5 text-[0.9375rem] font-semibold tracking-tight">
        <Logo /> Sluice
      </Link>
      <div className="flex items-center gap-1">
        <button
          type="button"
          aria-label="Search"
          onClick={onSearch}
          className="inline-flex size-9 items-center justify-center rounded-md text-ink-2 hover:bg-hover"
        >
          <Search className="size-5" />
        </button>
        <Dialog.Root open={open} onOpenChange={setOpen}>
          <Dialog.Trigger
            aria-label="Menu"
            className="inline-flex size-9 items-center justify-center rounded-md text-ink-2 hover:bg-hover"
          >
            <MenuIcon className="size-5" />
          </Dialog.Trigger>
          <Dialog.Portal>
            <Dialog.Backdrop className="fixed inset-0 z-40 bg-backdrop" />
            <Dialog.Popup className="fixed inset-y-0 left-0 z-40 flex w-72 max-w-[85vw] flex-col border-r border-line bg-surface outline-none">
              <Dialog.Title className="sr-only">Menu</Dialog.Title>
              <Dialog.Close
                aria-label="Close"
                className="absolute top-3 right-3 inline-flex size-8 items-center justify-center rounded-md text-ink-3 hover:bg-hover"
              >
                <X className="size-4" />
              </Dialog.Close>
              <Side
                onSearch={() => {
                  setOpen(false);
                  onSearch();
                }}
              />
            </Dialog.Popup>
          </Dialog.Portal>
        </Dialog.Root>
      </div>
    </header>
  );
}

function Side({ onSearch }: SearchProps) {
  const { user } = useSession();
  const [path] = useLocation();
  const groups = menuOf(user);
  const current = groups
    .flatMap(({ entries }) => entries)
    .filter(({ to }) => path === to || (to !== '/' && path.startsWith(`${to}/`)))
    .reduce<string>((longest, { to }) => (to.length > longest.length ? to : longest), '');
  return (
    <>
      <div className="flex h-14 shrink-0 items-center px-4">
        <Link
          to="/"
          className="flex items-center gap-2.5 rounded-md text-[0.9375rem] font-semibold tracking-tight"
        >
          <Logo /> Sluice
        </Link>
      </div>
      <div className="space-y-2 px-3 pb-2">
        <AccountSwitch />
        <button
          type="button"
          onClick={onSearch}
          className="flex h-8 w-full items-center gap-2.5 rounded-md px-2 text-sm text-ink-2 transition-colors hover:bg-hover hover:text-ink"
        >
          <Search className="size-4 shrink-0 text-ink-3" />
          <span className="mr-auto">Search</span>
          <span className="hidden pointer-fine:block" aria-hidden="true">
            <ShortcutKeys keys="Mod K" />
          </span>
        </button>
      </div>
      <nav aria-label="Pages" className="flex-1 overflow-y-auto px-3 py-2">
        {groups.map(({ label, entries }) => (
          <div key={label ?? ''} className="mb-4">
            {label !== null && (
              <p className="mb-1 px-2 text-2xs font-medium tracking-wide text-ink-3 uppercase">{label}</p>
            )}
            <ul className="space-y-0.5">
              {entries.map((entry) => {
                const here = entry.to === current;
                return (
                  <li key={entry.to}>
                    <Link
                      to={entry.to}
                      aria-current={here ? 'page' : undefined}
                      className={`flex h-8 items-center gap-2.5 rounded-md px-2 text-sm transition-colors ${
                        here ? 'bg-hover font-medium text-ink' : 'text-ink-2 hover:bg-hover hover:text-ink'
                      }`}
                    >
                      <entry.icon
                        className={`size-4 shrink-0 ${here ? 'text-accent' : 'text-ink-3'}`}
                        aria-hidden="true"
                      />
                      {entry.label}
                      {entry.to === '/operator/alerts' && <FiringCount />}
                    </Link>
                  </li>
                );
              })}
            </ul>
          </div>
        ))}
      </nav>
      <div className="border-t border-line p-3">
        <UserMenu />
      </div>
    </>
  );
}

const EVERY_MS = 60_000;

/** The number of firing alerts, for the sidebar of operators; nothing if there are none. */
function FiringCount() {
  const { data } = useRead('readAlertSettings', undefined, { everyMs: EVERY_MS });
  const firing = data?.firing ?? 0;
  if (firing === 0) return null;
  return (
    <span className="ml-auto rounded-full bg-bad-soft px-1.5 text-2xs leading-5 font-medium text-bad tabular-nums">
      {firing}
      <span className="sr-only"> firing</span>
    </span>
  );
}
