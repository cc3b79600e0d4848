import { Element } from './element.ts';
import type { Field, ScalarField } from './field.ts';
import { listOf } from './foreign-fields.ts';
import type { Notes } from '../core/notes.ts';
import { noteUnknownField, unsupported } from '../json/values.ts';

/**
 * An object in a request, read according to the table of fields. The constructor notes fields that are unknown or
 * have no effect, and throws `unsupported_parameter` for a field that is refused or misspelled.
 */
export class RequestBody extends Element {
  readonly #table: readonly Field[];

  /**
   * `table` has the fields of the request. `path` is that in the body (such as `messages[2]`), and `place` that in the table
   * (`messages[]`).
   */
  constructor(value: unknown, table: readonly Field[], notes: Notes, path = '', place = path) {
    super(value, path, notes);
    this.#table = table;
    const { object } = this;
    const names = Object.keys(object);
    if (names.length === 0) return;
    const fields = fieldsOf(place, table);
    for (const name of names) {
      const field = fields.get(name);
      if (field === undefined) {
        noteUnknownField(object, name, fields, notes, this.at(''));
        continue;
      }
      const value = object[name] ?? null;
      if (value === null || isNeutral(field, value)) continue;
      if (field.use === 'refused') throw unsupported(this.at(name), refusalOf(field));
      if (field.use === 'noted') notes.add(this.at(name), 'ignored');
    }
  }

  /** Whether the field has a value besides null. */
  isSet({ name }: Field): boolean {
    return this.get(name) !== null;
  }

  /** Returns the value unchecked, or null if absent. Throws `missing_required_parameter`. */
  raw({ name, required }: Field): unknown {
    return required ? this.required(name) : this.get(name);
  }

  /** Returns the checked value, or the fallback. */
  read<T>(field: ScalarField<T>): T {
    const value = this.raw(field);
    return value === null ? field.fallback : field.read(value, this.at(field.name));
  }

  /** Returns the object in a field of the body, without members if it is absent. Throws as the constructor does, and `invalid_type`. */
  nested({ path, name }: Field): RequestBody {
    return new RequestBody(this.get(name) ?? {}, this.#table, this.notes, path);
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

/** Returns the fields of the object at `place`, by name. */
function fieldsOf(place: string, table: readonly Field[]): ReadonlyMap<string, Field> {
  let byPlace = cache.get(table);
  if (byPlace === undefined) cache.set(table, (byPlace = new Map()));
  let fields = byPlace.get(place);
  if (fields === undefined) {
    const parent = place === '' ? '' : `${place}.`;
    const own = table.filter((field) => field.path === parent + field.name);
    fields = new Map(own.map((field) => [field.name, field]));
    byPlace.set(place, fields);
  }
  return fields;
}
