import type { ResponseOf } from '../../api/client.ts';

/** The key of an unfinished setup, its step and its user. */
export interface FirstKey {
  step: 'key' | 'request';
  created: ResponseOf<'createKey'>;
  userId: string;
}

const KEY = 'sluice.setup';

/** The own copy of the tab is for a reload, the shared one for another tab in which the link is opened again. */
const STORAGES = ['sessionStorage', 'localStorage'] as const;

/** Keeps the first key until the setup is finished, because the service cannot show it again. */
export function keepFirstKey(kept: FirstKey): void {
  try {
    for (const storage of STORAGES) window[storage].setItem(KEY, JSON.stringify(kept));
  } catch {
    // Storage is unavailable: the key is lost on reload.
  }
}

/** Returns the kept key; null: none. */
export function keptFirstKey(): FirstKey | null {
  try {
    const text = sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY);
    return JSON.parse(text ?? 'null') as FirstKey | null; // Written above.
  } catch {
    return null;
  }
}

/** Removes the key. Called on every page after the setup. */
export function forgetFirstKey(): void {
  try {
    for (const storage of STORAGES) window[storage].removeItem(KEY);
  } catch {
    // Storage is unavailable, so it has no key.
  }
}
