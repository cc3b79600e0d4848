import type { ResponseOf } from '../../api/client.ts';

/** The key of an unfinished setup and its step. */
export interface FirstKey {
  step: 'key' | 'request';
  created: ResponseOf<'createKey'>;
}

const KEY = 'sluice.setup';

/** Keeps the first key for a reload of this tab, because the service cannot show it again. */
export function keepFirstKey(kept: FirstKey): void {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    // Storage is unavailable: the key is lost on reload.
  }
}

/** Returns the kept key; null: none. */
export function keptFirstKey(): FirstKey | null {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? 'null') as FirstKey | null; // Written above.
  } catch {
    return null;
  }
}

/** Removes the key. Called on every page after the setup. */
export function forgetFirstKey(): void {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Storage is unavailable, so it has no key.
  }
}
