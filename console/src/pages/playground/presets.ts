import { compareTexts } from '../../format/locale.ts';
import type { UserRecords } from '../../state/user-records.ts';
import { DEFAULTS, type Settings } from './settings.ts';

export interface Preset {
  name: string;
  /** System prompt; empty: none. */
  system: string;
  settings: Settings;
}

/** Maximum number of presets. */
export const MAX_PRESETS = 50;
/** Maximum length of a name, in characters. */
export const MAX_PRESET_NAME = 60;

export const FULL = 'Not saved: the storage of this browser is full or blocked.';

/** The presets of a user in this browser. Names are unique. */
export class Presets {
  readonly #records: UserRecords<Preset>;

  constructor(records: UserRecords<Preset>) {
    this.#records = records;
  }

  async list(): Promise<Preset[]> {
    const presets = await this.#records.all();
    return presets
      .map((preset) => ({ ...preset, settings: { ...DEFAULTS, ...preset.settings } }))
      .toSorted((a, b) => compareTexts(a.name, b.name));
  }

  /** Adds a preset, or replaces the one of the same name. Returns an error message; null: saved. */
  async save(preset: Preset): Promise<string | null> {
    const name = preset.name.trim().slice(0, MAX_PRESET_NAME);
    if (name === '') return 'Enter a name.';
    try {
      const isNew = (await this.#records.read(name)) === undefined;
      if (isNew && (await this.#records.count()) >= MAX_PRESETS)
        return `You can save at most ${MAX_PRESETS} presets. Delete one first.`;
      await this.#records.update(name, () => ({ ...preset, name }));
      return null;
    } catch {
      return FULL;
    }
  }

  /** Renames a preset. Returns an error message; null: renamed. */
  async rename(preset: Preset, to: string): Promise<string | null> {
    const name = to.trim().slice(0, MAX_PRESET_NAME);
    if (name === preset.name) return null;
    if (name === '') return 'Enter a name.';
    try {
      if (await this.#records.read(name)) return `The name ${name} is already used.`;
      await this.#records.update(name, () => ({ ...preset, name }));
      await this.#records.remove(preset.name);
      return null;
    } catch {
      return FULL;
    }
  }

  /** Deletes a preset. Returns an error message; null: deleted. */
  async remove({ name }: Preset): Promise<string | null> {
    return await this.#records.remove(name).then(
      () => null,
      () => FULL,
    );
  }
}
