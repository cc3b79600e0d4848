import { useCallback, useMemo, useSyncExternalStore } from 'react';
import { useSession } from './session.tsx';
import { userItems, type UserItems } from './user-storage.ts';

export interface ColumnChoice {
  hidden: ReadonlySet<string>;
  /** Shown even in windows that are too narrow for them. */
  shown: ReadonlySet<string>;
}

const listeners = new Set<() => void>();

/** The choices of the tables of this page, if the storage is full or unavailable. */
const unsaved = new Map<string, string>();

export function useColumnChoice(
  table: string,
): [choice: ColumnChoice, choose: (choice: ColumnChoice) => void] {
  const { user } = useSession();
  const items = useMemo(() => userItems(user.id), [user.id]);
  const name = `columns.${table}`;
  const subscribe = useCallback((changed: () => void) => listen(items, changed), [items]);
  const text = useSyncExternalStore(subscribe, () => unsaved.get(name) ?? items.read(name) ?? '');
  const choose = ({ hidden, shown }: ColumnChoice): void => {
    const signed = [...[...hidden].map((one) => `-${one}`), ...[...shown].map((one) => `+${one}`)];
    write(items, name, signed.join(' '));
    for (const listener of listeners) listener();
  };
  return [useMemo(() => ({ hidden: signedWith('-', text), shown: signedWith('+', text) }), [text]), choose];
}

function signedWith(sign: '-' | '+', text: string): ReadonlySet<string> {
  const names = text.split(' ').filter((one) => one.startsWith(sign));
  return new Set(names.map((one) => one.slice(1)));
}

function write(items: UserItems, name: string, text: string): void {
  unsaved.delete(name);
  if (!items.write(name, text || null)) unsaved.set(name, text);
}

function listen(items: UserItems, changed: () => void): () => void {
  listeners.add(changed);
  const unfollow = items.onChangedElsewhere(changed);
  return () => {
    listeners.delete(changed);
    unfollow();
  };
}
