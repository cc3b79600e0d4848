import type { Arguments, ItemOf } from '../../api/client.ts';
import type { FieldErrors } from '../../components/field-errors.ts';
import { limitErrors, limitsChange, typedLimits, type TypedLimits } from '../../format/limits.ts';

type Key = ItemOf<'listKeys'>;
type Settings = Arguments<'changeKey'>['body'];

/** Expiry of a key: unchanged, never, in a number of days, or at the end of a date. */
export type Expiry = 'same' | 'never' | '7' | '30' | '90' | '365' | 'date';

export interface KeyDraft extends TypedLimits {
  name: string;
  admin: boolean;
  expiry: Expiry;
  /** `YYYY-MM-DD` in local time; used if `expiry` is `date`. */
  date: string;
  /** Ids of the allowed models; null: all. */
  models: readonly string[] | null;
  /** Whether requests of which a part would have no effect are refused. */
  strict: boolean;
  tags: string;
}

export const NEW_KEY: KeyDraft = {
  name: '',
  admin: false,
  expiry: 'never',
  date: '',
  models: null,
  strict: false,
  tags: '',
  ...typedLimits({}),
};

export function draftOf(key: Key): KeyDraft {
  return {
    name: key.name,
    admin: key.kind === 'admin',
    expiry: 'same',
    date: '',
    models: key.allowed_models,
    strict: key.strict,
    tags: key.tags.join(', '),
    ...typedLimits(key.limits ?? {}),
  };
}

/** Returns the invalid fields. `nowMs` is in Unix milliseconds. */
export function keyErrors(draft: KeyDraft, nowMs: number): FieldErrors {
  const errors = limitErrors(draft);
  if (draft.name.trim() === '') errors['name'] = 'Enter a name.';
  if (draft.models?.length === 0)
    errors['allowed_models'] = 'Select at least one model, or allow all models.';
  const tags = tagsOf(draft.tags);
  if (tags.some((tag) => Array.from(tag).length > MAX_TAG_LENGTH))
    errors['tags'] = `Each tag can have at most ${MAX_TAG_LENGTH} characters.`;
  if (tags.length > MAX_TAGS) errors['tags'] = `A key can have at most ${MAX_TAGS} tags.`;
  if (expiryOf(draft, nowMs) === 'wrong') errors['expires_at'] = 'Choose today or a later date.';
  return errors;
}

/** Converts valid changes of a draft to settings of the API. `nowMs` is in Unix milliseconds. */
export function settingsOf(draft: KeyDraft, changed: Partial<KeyDraft>, nowMs: number): Settings {
  const { name, models, strict, tags } = changed;
  const expiresAt = expiryOf(draft, nowMs);
  const limits = limitsChange(changed);
  return {
    ...(name !== undefined && { name: name.trim() }),
    ...(changed.expiry !== undefined && expiresAt !== 'same' && { expires_at: expiresAt }),
    ...(models !== undefined && { allowed_models: models && [...models] }),
    ...(Object.keys(limits).length > 0 && { limits }),
    ...(strict !== undefined && { strict }),
    ...(tags !== undefined && { tags: tagsOf(tags) }),
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
