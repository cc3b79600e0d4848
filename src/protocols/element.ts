import type { Notes } from '../core/notes.ts';
import {
  asObject,
  asString,
  missing,
  noteUnknown,
  wrongType,
  wrongValue,
  type JsonObject,
} from '../json/values.ts';

/** An object in a request, such as a tool, a message or a part of its content. Each method throws a 400 with the field. */
export class Element {
  protected readonly object: JsonObject;
  /** Empty: the body. */
  readonly path: string;
  /** Receives what has no effect. */
  readonly notes: Notes;

  /** Throws `invalid_type` for anything but an object. */
  constructor(value: unknown, path: string, notes: Notes) {
    this.object = asObject(value, path);
    this.path = path;
    this.notes = notes;
  }

  get type(): string {
    return this.string('type');
  }

  /** Returns the path of a field. */
  at(name: string): string {
    return this.path === '' ? name : `${this.path}.${name}`;
  }

  has(name: string): boolean {
    return name in this.object;
  }

  /** Returns the value of a field; null if it is absent. */
  get(name: string): unknown {
    return this.object[name] ?? null;
  }

  required(name: string): unknown {
    const value = this.get(name);
    if (value === null) throw missing(this.at(name));
    return value;
  }

  /** Returns a text that need not be well-formed. */
  string(name: string): string {
    const value = this.required(name);
    if (typeof value !== 'string') throw wrongType(this.at(name), 'a string', value);
    return value;
  }

  text(name: string): string {
    return asString(this.required(name), this.at(name));
  }

  /** Returns the text of a field; '' if it is absent. */
  optionalText(name: string): string {
    return asString(this.get(name) ?? '', this.at(name));
  }

  /** Returns null if the field is absent. */
  boolean(name: string): boolean | null {
    const value = this.get(name);
    if (value !== null && typeof value !== 'boolean') throw wrongType(this.at(name), 'a boolean', value);
    return value;
  }

  /** Returns the text of a field that is one of these. */
  oneOf<T extends string>(name: string, values: readonly T[]): T {
    const value = this.string(name);
    const found = values.find((one) => one === value);
    if (found === undefined) throw wrongValue(this.at(name), `one of ${values.join(', ')}`);
    return found;
  }

  /** Returns the object in a field. */
  element(name: string): Element {
    return new Element(this.required(name), this.at(name), this.notes);
  }

  /** Returns the object in a field; null if it is absent. */
  optional(name: string): Element | null {
    return this.get(name) === null ? null : this.element(name);
  }

  list(name: string): readonly unknown[] {
    const value = this.required(name);
    if (!Array.isArray(value)) throw wrongType(this.at(name), 'an array', value);
    return value;
  }

  /** Returns the objects in a list. */
  elements(name: string): readonly Element[] {
    const path = this.at(name);
    return this.list(name).map((value, index) => new Element(value, `${path}[${index}]`, this.notes));
  }

  /** Notes fields that are not known. */
  noteUnknown(known: ReadonlySet<string>): void {
    noteUnknown(this.object, known, this.notes, this.at(''));
  }
}
