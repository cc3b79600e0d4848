import type { Arguments, Element } from '../../api/client.ts';
import type { LimitName } from '../../format/limits.ts';

type Key = Element<'listKeys'>;
type Limits = NonNullable<Key['limits']>;

/** When a key is to end: as it does now, never, so many days from now, or with a day on the calendar. */
export type Expiry = 'same' | 'never' | '7' | '30' | '90' | '365' | 'date';

/** What somebody has typed and chosen for a key: text, as it stands in the fields. */
export interface KeyDraft {
  name: string;
  admin: boolean;
  expiry: Expiry;
  /** `YYYY-MM-DD` in the reader's own time; read where `expiry` is `date`. */
  date: string;
  /** Ids of the models that it may use; null: all. */
  models: readonly string[] | null;
  /** Empty: none. */
  limits: Readonly<Record<LimitName, string>>;
}

const NO_LIMITS: KeyDraft['limits'] = {
  requests_per_minute: '',
  tokens_per_minute: '',
  requests_in_flight: '',
  tokens_per_day: '',
  tokens_per_month: '',
  usd_per_month: '',
};

/** Where a new key begins. */
export const NEW_KEY: KeyDraft = {
  name: '',
  admin: false,
  expiry: 'never',
  date: '',
  models: null,
  limits: NO_LIMITS,
};

/** Where changing a key begins. */
export function draftOf(key: Key): KeyDraft {
  const limits = { ...NO_LIMITS };
  for (const name of namesOf(limits)) limits[name] = String(key.limits?.[name] ?? '');
  return {
    name: key.name,
    admin: key.kind === 'admin',
    expiry: 'same',
    date: '',
    models: key.allowed_models,
    limits,
  };
}

/** What is wrong with fields, by the names that the interface has for them. */
export type Faults = Readonly<Record<string, string>>;

type Settings = Pick<Arguments<'changeKey'>['body'], 'expires_at' | 'allowed_models' | 'limits'> & {
  name: string;
};
type Read = { settings: Settings; faults: null } | { settings: null; faults: Faults };

/**
 * What a draft asks the service for, or why it cannot. `before` is the key that is changed: what its limits say of
 * single models and of bursts stays, since all limits of a key are replaced together. `nowMs` is in Unix milliseconds.
 */
export function settingsOf(draft: KeyDraft, nowMs: number, before: Key | null = null): Read {
  const faults: Record<string, string> = {};
  if (draft.name.trim() === '') faults['name'] = 'A key has a name.';
  const { burst, models } = before?.limits ?? {};
  const limits: Limits = { ...(burst && { burst }), ...(models && { models }) };
  for (const name of namesOf(draft.limits)) {
    // People part thousands as they are used to.
    const text = draft.limits[name].replaceAll(/[\s,'_’]/g, '');
    if (text === '') continue;
    if (name === 'usd_per_month') {
      const amount = text.replace(/^\$/, '');
      if (/^\d{1,6}(\.\d{1,6})?$/.test(amount)) limits[name] = amount;
      else faults[`limits.${name}`] = 'An amount in USD, such as 25 or 2.50.';
    } else if (/^[1-9]\d{0,12}$/.test(text)) limits[name] = Number(text);
    else faults[`limits.${name}`] = 'A whole number of 1 or more.';
  }
  if (draft.models?.length === 0) faults['allowed_models'] = 'Choose at least one model, or allow all.';
  const expiresAt = expiryOf(draft, nowMs);
  if (expiresAt === 'wrong') faults['expires_at'] = 'A day from today on.';
  if (expiresAt === 'wrong' || Object.keys(faults).length > 0) return { settings: null, faults };
  return {
    faults: null,
    settings: {
      name: draft.name.trim(),
      ...(expiresAt === 'same' ? {} : { expires_at: expiresAt }),
      allowed_models: draft.models === null ? null : [...draft.models],
      limits: Object.keys(limits).length > 0 ? limits : null,
    },
  };
}

const DAY_MS = 86_400_000;

function expiryOf({ expiry, date }: KeyDraft, nowMs: number): string | null {
  if (expiry === 'same') return 'same';
  if (expiry === 'never') return null;
  if (expiry !== 'date') return new Date(nowMs + Number(expiry) * DAY_MS).toISOString();
  // The last moment of that day where the reader is.
  const end = new Date(`${date}T23:59:59`);
  return end.getTime() > nowMs ? end.toISOString() : 'wrong';
}

/** The day, where the reader is, as a field for dates has it. */
export function dayOfField(ms: number): string {
  const at = new Date(ms);
  const two = (value: number) => String(value).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

function namesOf(limits: KeyDraft['limits']): LimitName[] {
  return Object.keys(limits) as LimitName[]; // Its type has all of them and no other.
}
