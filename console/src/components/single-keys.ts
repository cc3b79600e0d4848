import { useSyncExternalStore } from 'react';
import { deviceChoice } from '../state/storage.ts';

const choice = deviceChoice('sluice.single-keys', ['on', 'off']);

/** Returns whether shortcuts of a single key, such as `/`, are on, and a setter. Stored on this device. */
export function useSingleKeys(): [on: boolean, set: (on: boolean) => void] {
  return [useSyncExternalStore(choice.subscribe, areSingleKeysOn), (on) => choice.set(on ? 'on' : 'off')];
}

/** Returns whether shortcuts of a single key are on. */
export const areSingleKeysOn = (): boolean => choice.get() === 'on';

/** Selects open dialogs. Toasts also have the role `dialog`; only they have `data-type`. */
export const OPEN_DIALOG = '[role="alertdialog"], [role="dialog"]:not([data-type])';

/** Returns whether the keys of an element enter text or select something. */
export const takesKeys = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable ||
    target.closest('input, textarea, select, [role="combobox"], [role="menu"], [role="listbox"]') !== null);
