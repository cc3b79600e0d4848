import {
  createContext,
  Fragment,
  use,
  useLayoutEffect,
  useState,
  useSyncExternalStore,
  type ReactNode,
} from 'react';

/** Renders a dialog. `close` removes it, with a result. */
export type Overlay<Result> = (close: (result?: Result) => void) => ReactNode;

/** A place that renders dialogs: the page, or an open dialog, whose focus and Escape key they take. */
interface Host {
  parent: Host | null;
}

interface OpenOverlay {
  id: number;
  host: Host | null;
  endsWithHost: boolean;
  render: () => ReactNode;
  /** Closes it without a result. */
  dismiss: () => void;
}

let overlays: readonly OpenOverlay[] = [];
let hosts: readonly Host[] = [];
let count = 0;
const listeners = new Set<() => void>();

/**
 * Opens a dialog above everything that is shown. It is not part of the component that opens it: it stays when that
 * component goes, for example when the page changes. Resolves to its result when it closes; undefined: it was dismissed,
 * or the session has ended, or, if it `endsWithHost`, the dialog below it was closed.
 */
export function openOverlay<Result>(
  overlay: Overlay<Result>,
  { endsWithHost = false } = {},
): Promise<Result | undefined> {
  return new Promise((resolve) => {
    const id = count++;
    const close = (result?: Result) => {
      set(overlays.filter((other) => other.id !== id));
      resolve(result);
    };
    const host = hosts.at(-1) ?? null;
    set([...overlays, { id, host, endsWithHost, render: () => overlay(close), dismiss: () => close() }]);
  });
}

const HostContext = createContext<Host | null>(null);

/**
 * Renders the dialogs that are opened while it is the last host. One is around all pages of a session, whose end closes
 * them. Each open `Dialog` has one, because Base UI only handles the focus and the Escape key of dialogs that are nested in
 * the tree of components.
 */
export function OverlayHost({ children }: { children?: ReactNode }) {
  const parent = use(HostContext);
  const [host] = useState<Host>(() => ({ parent }));
  useLayoutEffect(() => {
    hosts = [...hosts, host];
    return () => {
      hosts = hosts.filter((other) => other !== host);
      for (const overlay of overlays)
        if (host.parent === null || (overlay.host === host && overlay.endsWithHost)) overlay.dismiss();
      // What else is open above a dialog stays when the dialog goes.
      set(overlays.map((one) => (one.host === host ? { ...one, host: host.parent } : one)));
    };
  }, [host]);
  const shown = useSyncExternalStore(subscribe, () => overlays);
  return (
    <HostContext value={host}>
      {children}
      {shown.map((one) => one.host === host && <Fragment key={one.id}>{one.render()}</Fragment>)}
    </HostContext>
  );
}

function set(next: readonly OpenOverlay[]): void {
  overlays = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
