import type { Arguments, ItemOf } from '../../api/client.ts';
import type { FieldErrors } from '../../components/field-errors.ts';
import { readLimits, typedLimits, type TypedLimits } from '../../format/typed-limits.ts';

type Key = ItemOf<'listKeys'>;
type Limits = NonNullable<Key['limits']>;

/** Expiry of a key: unchanged, never, in a number of days, or at the end of a date. */
export type Expiry = 'same' | 'never' | '7' | '30' | '90' | '365' | 'date';

/** The input of the key form, as text. */
export interface KeyDraft {
  name: string;
  admin: boolean;
  expiry: Expiry;
  /** `YYYY-MM-DD` in local time; used if `expiry` is `date`. */
  date: string;
  /** Ids of the allowed models; null: all. */
  models: readonly string[] | null;
  /** Whether requests of which a part would have no effect are refused. */
  strict: boolean;
  /** Separated by commas. */
  tags: string;
  /** Empty: none. */
  limits: TypedLimits;
}

/** Initial input for a new key. */
export const NEW_KEY: KeyDraft = {
  name: '',
  admin: false,
  expiry: 'never',
  date: '',
  models: null,
  strict: false,
  tags: '',
  limits: typedLimits({}),
};

/** Returns the initial input for an existing key. */
export function draftOf(key: Key): KeyDraft {
  return {
    name: key.name,
    admin: key.kind === 'admin',
    expiry: 'same',
    date: '',
    models: key.allowed_models,
    strict: key.strict,
    tags: key.tags.join(', '),
    limits: typedLimits(key.limits ?? {}),
  };
}

type Settings = Pick<
  Arguments<'changeKey'>['body'],
  'expires_at' | 'allowed_models' | 'limits' | 'strict' | 'tags'
> & {
  name: string;
};
type Read = { settings: Settings; errors: null } | { settings: null; errors: FieldErrors };

/**
 * Converts the input to API settings, or returns validation errors. `before` is the existing key: its per-model
 * limits and bursts are kept, because the API replaces all limits of a key together. `nowMs` is in Unix milliseconds.
 */
export function settingsOf(draft: KeyDraft, nowMs: number, before: Key | null = null): Read {
  const typed = readLimits(draft.limits);
  const errors: Record<string, string> = { ...typed.errors };
  if (draft.name.trim() === '') errors['name'] = 'Enter a name.';
  const { burst, models } = before?.limits ?? {};
  const limits: Limits = { ...(burst && { burst }), ...(models && { models }), ...typed.limits };
  if (draft.models?.length === 0)
    errors['allowed_models'] = 'Select at least one model, or allow all models.';
  const tags = tagsOf(draft.tags);
  if (tags.some((tag) => Array.from(tag).length > MAX_TAG_LENGTH))
    errors['tags'] = `Each tag can have at most ${MAX_TAG_LENGTH} characters.`;
  if (tags.length > MAX_TAGS) errors['tags'] = `A key can have at most ${MAX_TAGS} tags.`;
  const expiresAt = expiryOf(draft, nowMs);
  if (expiresAt === 'wrong') errors['expires_at'] = 'Choose today or a later date.';
  if (expiresAt === 'wrong' || Object.keys(errors).length > 0) return { settings: null, errors };
  return {
    errors: null,
    settings: {
      name: draft.name.trim(),
      ...(expiresAt === 'same' ? {} : { expires_at: expiresAt }),
      allowed_models: draft.models === null ? null : [...draft.models],
      limits: Object.keys(limits).length > 0 ? limits : null,
      strict: draft.strict,
      tags,
    },
  };
}

/** As in the API. */
const MAX_TAGS = 20;
const MAX_TAG_LENGTH = 40;

function tagsOf(text: string): string[] {
  const tags = text.split(',').map((tag) => tag.trim());
  return [...new Set(tags.filter((tag) => tag !== ''))];
}

const DAY_MS = 86_400_000;

function expiryOf({ expiry, date }: KeyDraft, nowMs: number): string | null {
  if (expiry === 'same') return 'same';
  if (expiry === 'never') return null;
  if (expiry !== 'date') return new Date(nowMs + Number(expiry) * DAY_MS).toISOString();
  // The end of that day in local time.
  const end = new Date(`${date}T23:59:59`);
  return end.getTime() > nowMs ? end.toISOString() : 'wrong';
}

/** Formats the local date for a date input. */
export function dayOfField(ms: number): string {
  const at = new Date(ms);
  const two = (value: number) => String(value).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}
