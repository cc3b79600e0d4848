import type { ResponseOf } from '../../api/client.ts';
import { readJson } from '../../format/json.ts';
import { readText, writeText } from '../../state/storage.ts';

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
  for (const storage of STORAGES) writeText(storage, KEY, JSON.stringify(kept));
}

/** Returns the kept key; null: none. */
export function keptFirstKey(): FirstKey | null {
  const text = readText(KEY, ...STORAGES);
  const read = readJson(text ?? 'null');
  return 'value' in read ? (read.value as FirstKey | null) : null; // Written above.
}

/** Removes the key. Called on every page after the setup. */
export function forgetFirstKey(): void {
  for (const storage of STORAGES) writeText(storage, KEY, null);
}
