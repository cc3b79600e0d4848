import type { Field, ScalarField } from './field.ts';
import { listOf } from './foreign-fields.ts';
import type { Notes } from '../core/notes.ts';
import { asObject, missing, noteUnknownField, unsupported } from '../json/values.ts';

/**
 * A JSON object in a request, read according to the table of fields. The constructor notes fields that are unknown or
 * have no effect, and throws `unsupported_parameter` for a field that is refused or misspelled.
 */
export class RequestBody {
  readonly #object: Readonly<Record<string, unknown>>;
  readonly #table: readonly Field[];
  readonly #path: string;
  /** Receives what has no effect. */
  readonly notes: Notes;

  /**
   * `table` has the fields of the request. `parent` is the path in the table (such as `messages[].`); `path` is the one in
   * the body (`messages[2].`).
   */
  constructor(
    object: Readonly<Record<string, unknown>>,
    table: readonly Field[],
    notes: Notes,
    parent = '',
    path = parent,
  ) {
    this.#object = object;
    this.#table = table;
    this.#path = path;
    this.notes = notes;
    const names = Object.keys(object);
    if (names.length === 0) return;
    const fields = fieldsOf(parent, table);
    for (const name of names) {
      const field = fields.get(name);
      if (field === undefined) {
        noteUnknownField(object, name, fields, notes, path);
        continue;
      }
      const value = object[name] ?? null;
      if (value === null || isNeutral(field, value)) continue;
      if (field.use === 'refused') throw unsupported(path + name, refusalOf(field));
      if (field.use === 'noted') notes.add(path + name, 'ignored');
    }
  }

  /** Whether the field has a value besides null. */
  has(field: Field): boolean {
    return (this.#object[field.name] ?? null) !== null;
  }

  /** Returns the value unchecked, or null if absent. Throws `missing_required_parameter`. */
  raw(field: Field): unknown {
    const value = this.#object[field.name] ?? null;
    if (value === null && field.required) throw missing(this.#path + field.name);
    return value;
  }

  /** Returns the checked value, or the fallback. */
  read<T>(field: ScalarField<T>): T {
    const value = this.raw(field);
    return value === null ? field.fallback : field.read(value, this.#path + field.name);
  }

  /** Returns the object in a field of the body, without members if it is absent. Throws as the constructor does, and `invalid_type`. */
  nested({ path, name }: Field): RequestBody {
    const object = asObject(this.#object[name] ?? {}, path);
    return new RequestBody(object, this.#table, this.notes, `${path}.`);
  }
}

function refusalOf({ instead }: Field): string {
  return instead.length === 0 ? 'is not supported' : `is not supported; use ${listOf(instead)}`;
}

function isNeutral(field: Field, value: unknown): boolean {
  if (typeof value !== 'object') return field.neutral.includes(value);
  // Listing the members of a large array takes milliseconds.
  if (field.neutral.length === 0) return false;
  // Neutral objects and arrays have at most one member, so comparing their JSON is cheap.
  if (value !== null && Object.keys(value).length > 1) return false;
  return field.neutral.some((neutral) => JSON.stringify(neutral) === JSON.stringify(value));
}

const cache = new WeakMap<readonly Field[], Map<string, ReadonlyMap<string, Field>>>();

/** Returns the fields of the object at `parent`, by name. */
function fieldsOf(parent: string, table: readonly Field[]): ReadonlyMap<string, Field> {
  let byParent = cache.get(table);
  if (byParent === undefined) cache.set(table, (byParent = new Map()));
  let fields = byParent.get(parent);
  if (fields === undefined) {
    const own = table.filter((field) => field.path === parent + field.name);
    fields = new Map(own.map((field) => [field.name, field]));
    byParent.set(parent, fields);
  }
  return fields;
}
