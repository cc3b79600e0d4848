import { openSignIn } from './leave-warning.ts';
import type { UserItems } from './user-items.ts';

const PREFIX = 'sluice.playground.';
const ITEM_PREFIX = 'sluice.item.';

/** Users who signed out. Pages that are still open store their state once more when they are left. */
const cleared = new Set<string>();

/**
 * Returns the text that this tab stored for a user, else the text that any tab stored last, so that a new tab continues
 * where the last one ended. Null: none, or storage is unavailable.
 */
export function readStored(userId: string): string | null {
  return attempt(() => sessionStorage.getItem(keyOf(userId)) ?? localStorage.getItem(keyOf(userId))) ?? null;
}

/**
 * Stores the text of this tab until its user signs out, and the text that new tabs start with. Each tab has its own copy
 * in session storage, so that tabs do not overwrite each other. Returns false if the storage is full or unavailable;
 * then the text is lost with the tab.
 */
export function writeStored(userId: string, text: string, forNewTabs: string): boolean {
  if (cleared.has(userId)) return true;
  const key = keyOf(userId);
  attempt(() => localStorage.setItem(key, forNewTabs));
  const isStored = attempt(() => {
    sessionStorage.setItem(key, text);
    return true;
  });
  // Without its own copy, a tab starts with the newest one, and not with an older one of its own.
  if (isStored === undefined) attempt(() => sessionStorage.removeItem(key));
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
      cleared.has(userId) ||
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

/** Called when a user is signed in. Deletes what other users of this browser typed, whose sessions have ended by themselves. */
export function deleteOfOthers(userId: string): void {
  cleared.delete(userId);
  deleteKeys((key) => key !== keyOf(userId) && !key.startsWith(itemPrefixOf(userId)));
}

/** Deletes what a user typed in this browser, in all tabs. */
export function clearStored(userId: string): void {
  cleared.add(userId);
  // Other tabs get an event only if there is something to remove.
  attempt(() => localStorage.setItem(keyOf(userId), ''));
  deleteKeys((key) => key === keyOf(userId) || key.startsWith(itemPrefixOf(userId)));
}

/** Deletes the keys of users that match. */
function deleteKeys(matches: (key: string) => boolean): void {
  for (const storage of ['sessionStorage', 'localStorage'] as const)
    attempt(() => {
      for (const key of Object.keys(window[storage]))
        if ((key.startsWith(PREFIX) || key.startsWith(ITEM_PREFIX)) && matches(key))
          window[storage].removeItem(key);
    });
}

/** Deletes what a signed-out user typed from this browser, and opens the sign-in page. */
export function leave(userId: string): void {
  clearStored(userId);
  openSignIn();
}

/** Calls `onCleared` after another tab deleted what a user typed, once this tab's copy is deleted too. */
export function onClearedElsewhere(onCleared: () => void): void {
  addEventListener('storage', ({ key, newValue }) => {
    if (!key?.startsWith(PREFIX) || newValue !== null) return;
    cleared.add(key.slice(PREFIX.length));
    // Not from the storage of all tabs, which would be an event for them.
    attempt(() => sessionStorage.removeItem(key));
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
