import { useSyncExternalStore } from 'react';

const PREFIX = 'sluice.columns.';
const listeners = new Set<() => void>();

/** The hidden columns of the tables of this page, by table, if the storage is unavailable. */
const unsaved = new Map<string, string>();

/** Returns the names of the columns of a table that the user has hidden on this device, and a setter. */
export function useHiddenColumns(
  table: string,
): [hidden: ReadonlySet<string>, hide: (names: readonly string[]) => void] {
  const text = useSyncExternalStore(listen, () => read(table));
  const hide = (names: readonly string[]): void => {
    write(table, names.join(' '));
    for (const listener of listeners) listener();
  };
  return [new Set(text.split(' ').filter((name) => name !== '')), hide];
}

function read(table: string): string {
  try {
    return localStorage.getItem(PREFIX + table) ?? '';
  } catch {
    return unsaved.get(table) ?? '';
  }
}

function write(table: string, names: string): void {
  try {
    if (names === '') localStorage.removeItem(PREFIX + table);
    else localStorage.setItem(PREFIX + table, names);
  } catch {
    unsaved.set(table, names);
  }
}

function listen(changed: () => void): () => void {
  listeners.add(changed);
  addEventListener('storage', changed);
  return () => {
    listeners.delete(changed);
    removeEventListener('storage', changed);
  };
}
