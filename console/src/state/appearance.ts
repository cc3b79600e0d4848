import { useSyncExternalStore } from 'react';
import { deviceChoice } from './storage.ts';

/** Color scheme of the console; `system` follows the device. */
export type Appearance = 'light' | 'dark' | 'system';

const choice = deviceChoice<Appearance>('sluice.appearance', ['system', 'light', 'dark']);
const dark = matchMedia('(prefers-color-scheme: dark)');

export function useAppearance(): [Appearance, (appearance: Appearance) => void] {
  return [useSyncExternalStore(choice.subscribe, choice.get), choice.set];
}

/** Returns the color scheme in use. Charts redraw when it changes. */
export function useScheme(): 'light' | 'dark' {
  return useSyncExternalStore(choice.subscribe, scheme);
}

function scheme(): 'light' | 'dark' {
  const chosen = choice.get();
  if (chosen !== 'system') return chosen;
  return dark.matches ? 'dark' : 'light';
}

// The first listener, so that charts find the new colors.
choice.subscribe(() => {
  document.documentElement.dataset.theme = scheme();
});
dark.addEventListener('change', choice.publish);
