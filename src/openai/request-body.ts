import type { Field, GenerationKind, ScalarField } from './field.ts';
import { FIELDS } from './fields.ts';
import { missing, refuseUnknown, unsupported } from './values.ts';

export interface ParseOptions {
  /** Most choices of one request: prompts x `n`. */
  maxChoices: number;
  /** True only in an engine process: the fields between the service and its engines are known too. */
  internal: boolean;
}

export interface ParsedRequest<R> {
  request: R;
  /** Fields given with a value that changes the answer and that not every dialect honours, each once. */
  used: readonly string[];
}

/**
 * One JSON object of a request (the body, or an object in it) read by the rows of the table below `parent`.
 * Making one throws `unsupported_parameter` for a field that the table does not know, or refuses.
 */
export class RequestBody {
  readonly used: string[] = [];
  readonly #object: Readonly<Record<string, unknown>>;
  readonly #at: string;

  /** `parent` is the path in the table, such as `messages[].`; `at` the path in this body, such as `messages[2].`. */
  constructor(
    object: Readonly<Record<string, unknown>>,
    kind: GenerationKind,
    internal: boolean,
    parent = '',
    at = parent,
  ) {
    this.#object = object;
    this.#at = at;
    const rows = rowsBelow(parent, kind, internal);
    refuseUnknown(object, rows, at);
    for (const name of Object.keys(object)) {
      const field = rows.get(name);
      const value = object[name] ?? null;
      if (field?.use === 'refused' && value !== null && !isNeutral(field, value)) {
        throw unsupported(at + name);
      }
    }
  }

  /** The value as it was given; null when absent. Throws `missing_required_parameter`. */
  raw(field: Field): unknown {
    const name = lastName(field.path);
    const value = this.#object[name] ?? null;
    if (value === null && field.required) throw missing(this.#at + name);
    return value;
  }

  /** The checked value, or the field's fallback; a value that changes the answer is noted as used. */
  read<T>(field: ScalarField<T>): T {
    const value = this.raw(field);
    if (value === null) return field.fallback;
    const checked = field.read(value, this.#at + lastName(field.path));
    if (!isNeutral(field, checked)) this.note(field);
    return checked;
  }

  /** Notes that a field is used in a way that an engine must honour. */
  note(field: Field): void {
    if (field.honouredBy !== 'all' && !this.used.includes(field.path)) this.used.push(field.path);
  }
}

function isNeutral(field: Field, value: unknown): boolean {
  if (typeof value !== 'object') return field.neutral.includes(value);
  // What else is neutral is [], {} and two tiny literals; their JSON tells them apart.
  if (typeof value === 'object' && value !== null && Object.keys(value).length > 1) return false;
  return field.neutral.some((neutral) => JSON.stringify(neutral) === JSON.stringify(value));
}

const NAMES: ReadonlyMap<string, string> = new Map(
  FIELDS.map(({ path }) => [path, path.slice(path.lastIndexOf('.') + 1)]),
);

/** The name of a field of the table within its object. */
function lastName(path: string): string {
  return NAMES.get(path) ?? path;
}

const cache = new Map<string, ReadonlyMap<string, Field>>();

/** The rows that stand directly below a path, by their last name. */
function rowsBelow(parent: string, kind: GenerationKind, internal: boolean): ReadonlyMap<string, Field> {
  const key = `${parent} ${kind} ${internal}`;
  let rows = cache.get(key);
  if (rows === undefined) {
    const below = FIELDS.filter(
      (field) =>
        field.path === parent + lastName(field.path) &&
        field.kinds.includes(kind) &&
        (internal || !field.internal),
    );
    rows = new Map(below.map((field) => [lastName(field.path), field]));
    cache.set(key, rows);
  }
  return rows;
}
