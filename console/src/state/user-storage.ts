import { keysOf, readText, writeText } from './storage.ts';
import { openSignIn } from './leave-warning.ts';
import { deleteRecords, signedOut } from './user-records.ts';

const PREFIX = 'sluice.playground.';
const ITEM_PREFIX = 'sluice.item.';

/**
 * Returns the text that this tab stored for a user, else the text that any tab stored last, so that a new tab continues
 * where the last one ended. Null: none, or storage is unavailable.
 */
export function readStored(userId: string): string | null {
  return readText(keyOf(userId), 'sessionStorage', 'localStorage');
}

/**
 * Stores the text of this tab until its user signs out, and the text that new tabs start with. Each tab has its own copy
 * in session storage, so that tabs do not overwrite each other. Returns false if the storage is full or unavailable;
 * then the text is lost with the tab.
 */
export function writeStored(userId: string, text: string, forNewTabs: string): boolean {
  if (signedOut.has(userId)) return true;
  const key = keyOf(userId);
  writeText('localStorage', key, forNewTabs);
  const isStored = writeText('sessionStorage', key, text);
  // Without its own copy, a tab starts with the newest one, and not with an older one of its own.
  if (!isStored) writeText('sessionStorage', key, null);
  return isStored;
}

/** Short texts that all tabs of a user share, by name. They are deleted at sign-out. */
export interface UserItems {
  /** Returns a text; null: none, or storage is unavailable. */
  read(name: string): string | null;
  /** Stores a text; null deletes it. Returns false if the storage is full or unavailable. */
  write(name: string, text: string | null): boolean;
  /** Calls `onChange` after another tab changed a text. Returns a function that unsubscribes. */
  onChangedElsewhere(onChange: (name: string, text: string | null) => void): () => void;
}

export function userItems(userId: string): UserItems {
  const prefix = itemPrefixOf(userId);
  return {
    read: (name) => readText(prefix + name, 'localStorage'),
    write: (name, text) => signedOut.has(userId) || writeText('localStorage', prefix + name, text),
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
  signedOut.delete(userId);
  deleteKeys((key) => key !== keyOf(userId) && !key.startsWith(itemPrefixOf(userId)));
  void deleteRecords((other) => other !== userId);
}

export async function clearStored(userId: string): Promise<void> {
  signedOut.add(userId);
  // Other tabs get an event only if there is something to remove.
  writeText('localStorage', keyOf(userId), '');
  deleteKeys((key) => key === keyOf(userId) || key.startsWith(itemPrefixOf(userId)));
  await deleteRecords((other) => other === userId);
}

function deleteKeys(matches: (key: string) => boolean): void {
  for (const storage of ['sessionStorage', 'localStorage'] as const)
    for (const key of keysOf(storage))
      if ((key.startsWith(PREFIX) || key.startsWith(ITEM_PREFIX)) && matches(key))
        writeText(storage, key, null);
}

export async function leave(userId: string): Promise<void> {
  await clearStored(userId);
  openSignIn();
}

/** Calls `onCleared` after another tab deleted what a user typed, once this tab's copy is deleted too. */
export function onClearedElsewhere(onCleared: () => void): void {
  addEventListener('storage', ({ key, newValue }) => {
    if (!key?.startsWith(PREFIX) || newValue !== null) return;
    const userId = key.slice(PREFIX.length);
    signedOut.add(userId);
    // Not from the storage of all tabs, which would be an event for them.
    writeText('sessionStorage', key, null);
    // This tab may have written one since.
    void deleteRecords((other) => other === userId).then(onCleared);
  });
}

function itemPrefixOf(userId: string): string {
  return `${ITEM_PREFIX}${userId}.`;
}

function keyOf(userId: string): string {
  return PREFIX + userId;
}
