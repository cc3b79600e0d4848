import { useSyncExternalStore } from 'react';
import { readText, writeText } from './browser-storage.ts';

/** Color scheme of the console; `system` follows the device. */
export type Appearance = 'light' | 'dark' | 'system';

const KEY = 'sluice.appearance';
const dark = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();
let chosen: Appearance = stored();

/** Returns the chosen appearance and a setter. Stored on this device. */
export function useAppearance(): [Appearance, (appearance: Appearance) => void] {
  return [useSyncExternalStore(listen, () => chosen), choose];
}

/** Returns the color scheme in use. Charts redraw when it changes. */
export function useScheme(): 'light' | 'dark' {
  return useSyncExternalStore(listen, scheme);
}

function choose(appearance: Appearance): void {
  chosen = appearance;
  // If the storage is unavailable, the choice lasts for this visit.
  writeText('localStorage', KEY, appearance === 'system' ? null : appearance);
  apply();
}

function apply(): void {
  document.documentElement.dataset.theme = scheme();
  for (const listener of listeners) listener();
}

function scheme(): 'light' | 'dark' {
  if (chosen !== 'system') return chosen;
  return dark.matches ? 'dark' : 'light';
}

function stored(): Appearance {
  const value = readText(KEY, 'localStorage');
  return value === 'light' || value === 'dark' ? value : 'system';
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

dark.addEventListener('change', apply);
