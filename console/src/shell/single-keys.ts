import { useSyncExternalStore } from 'react';

const KEY = 'sluice.single-keys';
const listeners = new Set<() => void>();

/** Returns whether the shortcuts `/` and `?` are on, and a setter. Stored on this device. */
export function useSingleKeys(): [on: boolean, set: (on: boolean) => void] {
  return [useSyncExternalStore(listen, areSingleKeysOn), setSingleKeysOn];
}

/** Returns whether the shortcuts `/` and `?` are on. */
export function areSingleKeysOn(): boolean {
  try {
    return localStorage.getItem(KEY) !== 'off';
  } catch {
    return true;
  }
}

function setSingleKeysOn(on: boolean): void {
  try {
    if (on) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, 'off');
  } catch {
    // Storage is unavailable: the shortcuts stay on.
  }
  for (const listener of listeners) listener();
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
