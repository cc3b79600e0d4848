import { useSyncExternalStore } from 'react';

/** How the console looks; `system` follows the device. */
export type Appearance = 'light' | 'dark' | 'system';

const KEY = 'sluice.appearance';
const dark = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();
let chosen: Appearance = stored();

/** What was chosen, and how to choose anew. It stays on this device. */
export function useAppearance(): [Appearance, (appearance: Appearance) => void] {
  return [useSyncExternalStore(listen, () => chosen), choose];
}

/** The scheme in use now; a chart redraws when it changes. */
export function useScheme(): 'light' | 'dark' {
  return useSyncExternalStore(listen, scheme);
}

function choose(appearance: Appearance): void {
  chosen = appearance;
  try {
    if (appearance === 'system') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, appearance);
  } catch {
    // Storage is closed to us: it holds for this visit.
  }
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
  try {
    const value = localStorage.getItem(KEY);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    return 'system';
  }
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

dark.addEventListener('change', apply);
