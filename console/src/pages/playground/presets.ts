import { SavedItems } from '../../components/saved-items.ts';
import type { UserItems } from '../../state/user-items.ts';
import type { Settings } from './settings.ts';
import { settingsOf } from './stored.ts';

/** Parameters that are saved under a name. */
export interface Preset {
  /** System prompt; empty: none. */
  system: string;
  settings: Settings;
}

export type Presets = SavedItems<Preset>;

/** Returns the presets of a user in this browser. */
export function presetsOf(items: UserItems): Presets {
  return new SavedItems<Preset>(items, {
    item: 'presets',
    what: 'presets',
    parse: ({ system, settings }) => ({
      system: typeof system === 'string' ? system : '',
      settings: settingsOf(settings),
    }),
  });
}
