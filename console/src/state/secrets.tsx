import { createContext, Fragment, use, useCallback, useRef, useState, type ReactNode } from 'react';

/** Renders a dialog with a secret. `close` drops the secret from memory. */
type SecretDialog = (close: () => void) => ReactNode;

const Context = createContext<((dialog: SecretDialog) => void) | null>(null);

/** Returns a function that opens a dialog with a one-time secret. The dialog stays open when the page changes. */
export function useShowSecret(): (dialog: SecretDialog) => void {
  const show = use(Context);
  if (show === null) throw new TypeError('useShowSecret needs a signed-in user');
  return show;
}

/**
 * Shows one-time secrets on top of every page, one at a time: the form that created a secret can be closed before the
 * secret arrives. Drops them when it unmounts, at the end of the session.
 */
export function SecretsProvider({ children }: { children: ReactNode }) {
  const [waiting, setWaiting] = useState<readonly { id: number; dialog: SecretDialog }[]>([]);
  const count = useRef(0);
  const show = useCallback((dialog: SecretDialog) => {
    const id = count.current++;
    setWaiting((others) => [...others, { id, dialog }]);
  }, []);
  const [first] = waiting;
  const close = () => setWaiting(([, ...others]) => others);
  return (
    <Context value={show}>
      {children}
      {first !== undefined && <Fragment key={first.id}>{first.dialog(close)}</Fragment>}
    </Context>
  );
}
