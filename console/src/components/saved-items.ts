import { isObject, readJson } from '../format/json.ts';
import { compareTexts } from '../format/locale.ts';
import type { UserItems } from '../state/user-items.ts';

/** What a user saved under a name. */
export type Saved<Value> = Value & { name: string };

/** Maximum number of items of a list. */
export const MAX_SAVED = 50;
/** Maximum length of a name, in characters. */
export const MAX_SAVED_NAME = 60;

interface SavedKind<Value> {
  /** Name of the text in the storage. */
  item: string;
  /** What the items are called, such as `presets`. */
  what: string;
  /** Reads a stored item; null: invalid. */
  parse: (stored: Readonly<Record<string, unknown>>) => Value | null;
}

/** Values that a user saved in this browser, in the order of their names. Names are unique. */
export class SavedItems<Value extends object> {
  readonly #items: UserItems;
  readonly #kind: SavedKind<Value>;
  readonly #listeners = new Set<() => void>();
  #text: string | null = null;
  #list: readonly Saved<Value>[] = [];

  constructor(items: UserItems, kind: SavedKind<Value>) {
    this.#items = items;
    this.#kind = kind;
  }

  /** What is stored now. The same array until it changes. */
  get list(): readonly Saved<Value>[] {
    const text = this.#items.read(this.#kind.item);
    if (text !== this.#text) {
      this.#text = text;
      this.#list = this.#parse(text);
    }
    return this.#list;
  }

  /** Calls the listener after each change, also of other tabs. Returns a function that unsubscribes. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    const unfollow = this.#items.onChangedElsewhere((name) => {
      if (name === this.#kind.item) listener();
    });
    return () => {
      this.#listeners.delete(listener);
      unfollow();
    };
  };

  /** Adds an item, or replaces the one of the same name. Returns an error message; null: saved. */
  save(item: Saved<Value>): string | null {
    const name = item.name.trim().slice(0, MAX_SAVED_NAME);
    if (name === '') return 'Enter a name.';
    const others = this.list.filter((one) => one.name !== name);
    if (others.length >= MAX_SAVED) {
      return `You can save at most ${MAX_SAVED} ${this.#kind.what}. Delete one first.`;
    }
    return this.#write([...others, { ...item, name }]);
  }

  /** Renames an item. Returns an error message; null: renamed, or the item does not exist. */
  rename(from: string, to: string): string | null {
    const name = to.trim().slice(0, MAX_SAVED_NAME);
    const item = this.list.find((one) => one.name === from);
    if (name === from || item === undefined) return null;
    if (name === '') return 'Enter a name.';
    if (this.list.some((one) => one.name === name)) return `The name ${name} is already used.`;
    return this.#write(this.list.map((one) => (one === item ? { ...item, name } : one)));
  }

  remove(name: string): string | null {
    return this.#write(this.list.filter((one) => one.name !== name));
  }

  #write(list: readonly Saved<Value>[]): string | null {
    const isStored = this.#items.write(this.#kind.item, JSON.stringify(list));
    for (const listener of this.#listeners) listener();
    return isStored ? null : 'Not saved: the storage of this browser is full or blocked.';
  }

  #parse(text: string | null): Saved<Value>[] {
    const parsed = readJson(text ?? '[]');
    const stored: unknown[] = 'value' in parsed && Array.isArray(parsed.value) ? parsed.value : [];
    return stored
      .flatMap((one): Saved<Value>[] => {
        if (!isObject(one) || typeof one.name !== 'string') return [];
        const value = this.#kind.parse(one);
        return value === null ? [] : [{ ...value, name: one.name }];
      })
      .toSorted((a, b) => compareTexts(a.name, b.name));
  }
}
