import { isObject, readJson } from '../../format/json.ts';
import type { UserItems } from '../../state/user-items.ts';
import type { Settings } from './settings.ts';
import { settingsOf } from './stored.ts';

/** Named parameters. */
export interface Preset {
  name: string;
  /** System prompt; empty: none. */
  system: string;
  settings: Settings;
}

/** Maximum number of presets of a user. */
export const MAX_PRESETS = 50;
/** Maximum length of a name, in characters. */
export const MAX_PRESET_NAME = 60;

const ITEM = 'presets';

/** The presets of a user in this browser, in the order of their names. Names are unique. */
export class Presets {
  readonly #items: UserItems;
  readonly #listeners = new Set<() => void>();
  #list: readonly Preset[];

  constructor(items: UserItems) {
    this.#items = items;
    this.#list = read(items);
  }

  get list(): readonly Preset[] {
    return this.#list;
  }

  /** Calls the listener after each change, also of other tabs. Returns a function that unsubscribes. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    const unfollow = this.#items.onChangedElsewhere((name) => {
      if (name === ITEM) this.#publish();
    });
    return () => {
      this.#listeners.delete(listener);
      unfollow();
    };
  };

  /** Adds a preset, or replaces the one of the same name. Returns an error message; null: saved. */
  save(preset: Preset): string | null {
    const name = preset.name.trim().slice(0, MAX_PRESET_NAME);
    if (name === '') return 'Enter a name.';
    const others = read(this.#items).filter((one) => one.name !== name);
    if (others.length >= MAX_PRESETS) return `Use at most ${MAX_PRESETS} presets. Delete one first.`;
    return this.#write([...others, { ...preset, name }]);
  }

  /** Renames a preset. Returns an error message; null: renamed, or the preset does not exist. */
  rename(from: string, to: string): string | null {
    const name = to.trim().slice(0, MAX_PRESET_NAME);
    const presets = read(this.#items);
    const preset = presets.find((one) => one.name === from);
    if (name === from || preset === undefined) return null;
    if (name === '') return 'Enter a name.';
    if (presets.some((one) => one.name === name)) return `Another preset is named ${name}.`;
    return this.#write(presets.map((one) => (one === preset ? { ...preset, name } : one)));
  }

  remove(name: string): void {
    this.#write(read(this.#items).filter((one) => one.name !== name));
  }

  #write(presets: readonly Preset[]): string | null {
    const isStored = this.#items.write(ITEM, JSON.stringify(presets));
    this.#publish();
    return isStored ? null : 'Not saved: the storage of this browser is full or blocked.';
  }

  #publish(): void {
    this.#list = read(this.#items);
    for (const listener of this.#listeners) listener();
  }
}

function read(items: UserItems): Preset[] {
  const parsed = readJson(items.read(ITEM) ?? '[]');
  const values: unknown[] = 'value' in parsed && Array.isArray(parsed.value) ? parsed.value : [];
  return values
    .flatMap((value): Preset[] => {
      if (!isObject(value) || typeof value.name !== 'string') return [];
      const system = typeof value.system === 'string' ? value.system : '';
      return [{ name: value.name, system, settings: settingsOf(value.settings) }];
    })
    .toSorted((a, b) => a.name.localeCompare(b.name));
}
