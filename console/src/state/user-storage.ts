import { openSignIn } from './leave-warning.ts';
import type { UserItems } from './user-items.ts';

const PREFIX = 'sluice.playground.';
const ITEM_PREFIX = 'sluice.item.';

/** Set by sign-out: pages that are still open store their state once more when they are left. */
let isCleared = false;

/**
 * Returns the text that this tab stored for a user, else the text that any tab stored last, so that a new tab continues
 * where the last one ended. Null: none, or storage is unavailable.
 */
export function readStored(userId: string): string | null {
  isCleared = false;
  return attempt(() => sessionStorage.getItem(keyOf(userId)) ?? localStorage.getItem(keyOf(userId))) ?? null;
}

/**
 * Stores the text of this tab until its user signs out, and the text that new tabs start with. Each tab has its own copy
 * in session storage, so that tabs do not overwrite each other. Returns false if the storage is full or unavailable;
 * then the text is lost with the tab.
 */
export function writeStored(userId: string, text: string, forNewTabs: string): boolean {
  if (isCleared) return true;
  const key = keyOf(userId);
  const isStored = attempt(() => {
    // Without its own copy, a tab would restore an older one.
    sessionStorage.removeItem(key);
    localStorage.setItem(key, forNewTabs);
    sessionStorage.setItem(key, text);
    return true;
  });
  return isStored === true;
}

/** Returns the texts that the tabs of a user share. */
export function userItems(userId: string): UserItems {
  const prefix = itemPrefixOf(userId);
  const read = (name: string) => attempt(() => localStorage.getItem(prefix + name)) ?? null;
  return {
    all: () => {
      const keys = attempt(() => Object.keys(localStorage).filter((key) => key.startsWith(prefix))) ?? [];
      const names = keys.map((key) => key.slice(prefix.length));
      return new Map(names.map((name) => [name, read(name) ?? '']));
    },
    read,
    write: (name, text) =>
      isCleared ||
      attempt(() => {
        localStorage.setItem(prefix + name, text);
        return true;
      }) === true,
    remove: (name) => {
      attempt(() => localStorage.removeItem(prefix + name));
    },
    onChangedElsewhere: (onChange) => {
      const listener = ({ key, newValue }: StorageEvent) => {
        if (key?.startsWith(prefix)) onChange(key.slice(prefix.length), newValue);
      };
      addEventListener('storage', listener);
      return () => removeEventListener('storage', listener);
    },
  };
}

/** Deletes what the user of this browser typed, in all tabs. */
export function clearStored(userId: string): void {
  isCleared = true;
  const items = userItems(userId);
  for (const name of items.all().keys()) items.remove(name);
  attempt(() => sessionStorage.removeItem(keyOf(userId)));
  // Other tabs get an event only if there is something to remove.
  attempt(() => localStorage.setItem(keyOf(userId), ''));
  attempt(() => localStorage.removeItem(keyOf(userId)));
}

/** Deletes what a signed-out user typed from this browser, and opens the sign-in page. */
export function leave(userId: string): void {
  clearStored(userId);
  openSignIn();
}

/** Calls `onCleared` after another tab called `clearStored`, once this tab's copy is deleted too. */
export function onClearedElsewhere(onCleared: () => void): void {
  addEventListener('storage', ({ key, newValue }) => {
    if (!key?.startsWith(PREFIX) || newValue !== null) return;
    clearStored(key.slice(PREFIX.length));
    onCleared();
  });
}

function itemPrefixOf(userId: string): string {
  return `${ITEM_PREFIX}${userId}.`;
}

function keyOf(userId: string): string {
  return PREFIX + userId;
}

/** Calls a function of the browser's storage, which throws if the storage is full or blocked. */
function attempt<Value>(access: () => Value): Value | undefined {
  try {
    return access();
  } catch {
    return undefined;
  }
}
