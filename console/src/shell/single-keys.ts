import { useSyncExternalStore } from 'react';
import { deviceChoice } from '../state/storage.ts';

const choice = deviceChoice('sluice.single-keys', ['on', 'off']);

/** Returns whether the shortcuts `/` and `?` are on, and a setter. Stored on this device. */
export function useSingleKeys(): [on: boolean, set: (on: boolean) => void] {
  return [useSyncExternalStore(choice.subscribe, areSingleKeysOn), (on) => choice.set(on ? 'on' : 'off')];
}

/** Returns whether the shortcuts `/` and `?` are on. */
export const areSingleKeysOn = (): boolean => choice.get() === 'on';
