import type { ServiceError } from '../core/errors.ts';
import type { Notes } from '../core/notes.ts';
import { asString, wrongType } from '../json/values.ts';
import { Element } from './element.ts';
import type { Content } from './images.ts';

/** Reads an element. `T`: what collects the elements. */
export type ElementReader<T> = (element: Element, into: T) => void;

/** How the elements of a content are read. */
export interface ElementTable<T> {
  readonly noun: 'items' | 'parts' | 'blocks';
  /** By type. */
  readonly readers: ReadonlyMap<string, ElementReader<T>>;
  /** Reads an element of another type. */
  readonly other: ElementReader<T>;
  /** Adds a text, which can be in the place of the elements. */
  addText(text: string, into: T, path: string, notes: Notes): void;
  /** Returns the type of an element. Default: that in its field. */
  typeOf?(element: Element): string;
}

/** Adds to a reader that fields are noted that are not known, which are `type` and these. */
export function reader<T>(fields: string, read: ElementReader<T>): ElementReader<T> {
  const known = new Set(['type', ...fields.split(' ')]);
  return (element, into) => {
    element.noteUnknown(known);
    read(element, into);
  };
}

/** Reads a content: a text, or a list of elements. Returns what collects it. Throws a 400 with the path of the field. */
export function readContent<T>(
  value: unknown,
  path: string,
  notes: Notes,
  table: ElementTable<T>,
  into: T,
): T {
  if (typeof value === 'string') table.addText(asString(value, path), into, path, notes);
  else if (!Array.isArray(value)) throw wrongType(path, `a string or an array of ${table.noun}`, value);
  else
    value.forEach((part, index) => readElement(new Element(part, `${path}[${index}]`, notes), table, into));
  return into;
}

export function readElement<T>(element: Element, table: ElementTable<T>, into: T): void {
  const type = table.typeOf?.(element) ?? element.type;
  (table.readers.get(type) ?? table.other)(element, into);
}

/**
 * Returns the tables of the parts of a message of the user, of the result of a tool, and of any other message. A part that
 * models cannot read is left out of a result, and of a message of the user that is not the newest one, if it is a file.
 */
export function partTables(
  readers: ElementTable<Content>['readers'],
  isFile: (part: Element) => boolean,
  refusal: (part: Element) => ServiceError,
): Record<'user' | 'result' | 'other', ElementTable<Content>> {
  const table = (other: ElementTable<Content>['other']): ElementTable<Content> => ({
    noun: 'parts',
    readers,
    other,
    addText: (text, content) => content.addText(text),
  });
  const refuse = (part: Element): never => {
    throw refusal(part);
  };
  return {
    user: table((part, content) =>
      isFile(part) ? content.leaveOut(part.path, part.notes, refusal(part)) : refuse(part),
    ),
    result: table(({ path, notes }, content) => content.leaveOut(path, notes)),
    other: table(refuse),
  };
}
