import { isObject, readJson } from '../../format/json.ts';
import type { UserItems } from '../../state/user-items.ts';
import { hasSameTurns, hasTurns, isSameConversation, type Conversation, type Draft } from './draft.ts';
import { draftOf, storedText } from './stored.ts';

/** A stored conversation, as listed. */
export interface ListedConversation {
  id: string;
  /** As given by the user, else the beginning of the first message. */
  title: string;
  /** When its messages were last changed, Unix milliseconds. */
  updatedAtMs: number;
}

/** Maximum number of conversations that a browser keeps for a user. */
export const MAX_CONVERSATIONS = 200;
/** Maximum size of all conversations, in characters. Browsers store 5 million for a site. */
const MAX_SIZE = 4_000_000;
/** Maximum length of a title, in characters. */
export const MAX_TITLE = 80;

const NAME_PREFIX = 'conversation.';

/** What `save` did with a conversation. */
export interface Saved {
  isStored: boolean;
  /** Number of older conversations that were deleted for it. */
  removed: number;
}

interface Entry extends ListedConversation {
  name: string | null;
  size: number;
}

/**
 * The conversations of a user in this browser, each under its own key, so that tabs do not overwrite those of others.
 * Above the maximum number or size, the oldest are deleted.
 */
export class Conversations {
  readonly #items: UserItems;
  readonly #entries = new Map<string, Entry>();
  readonly #listeners = new Set<() => void>();
  /** The conversations that this tab saved or opened, to skip those without changes. */
  readonly #saved = new Map<string, Conversation>();
  #list: readonly ListedConversation[] = [];

  constructor(items: UserItems) {
    this.#items = items;
    for (const [name, text] of items.all()) {
      if (name.startsWith(NAME_PREFIX)) this.#read(name.slice(NAME_PREFIX.length), text);
    }
    this.#publish();
  }

  /** The conversations, the newest first. */
  get list(): readonly ListedConversation[] {
    return this.#list;
  }

  /** Calls the listener after each change of `list`. Returns a function that unsubscribes. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Returns a conversation; null: it was deleted. */
  open(id: string): Conversation | null {
    const text = this.#items.read(NAME_PREFIX + id);
    const record = text === null ? null : recordOf(text);
    if (record === null) return null;
    const { id: _, ...draft } = record.draft;
    const conversation = { ...draft, id };
    this.#saved.set(id, conversation);
    return conversation;
  }

  /**
   * Continues with the draft of this tab after a reload. Returns its conversation as another tab changed it; null:
   * unchanged or deleted, and only stored again after a change.
   */
  resume(draft: Draft): Conversation | null {
    if (!hasTurns(draft)) return null;
    const stored = this.open(draft.id);
    if (stored !== null && draftText(stored) !== draftText(draft)) return stored;
    this.#saved.set(draft.id, draft);
    return null;
  }

  /** Returns the IDs of the conversations whose title or messages contain a text, ignoring case. */
  search(query: string): ReadonlySet<string> {
    const wanted = query.trim().toLowerCase();
    const found = this.#list.filter(({ id, title }) => {
      if (title.toLowerCase().includes(wanted)) return true;
      const draft = recordOf(this.#items.read(NAME_PREFIX + id) ?? '')?.draft;
      return draft?.columns.some(({ turns }) =>
        turns.some(({ text }) => text.toLowerCase().includes(wanted)),
      );
    });
    return new Set(found.map(({ id }) => id));
  }

  /** Returns whether a conversation differs from what this tab saved or opened. */
  isChanged(draft: Draft): boolean {
    const saved = this.#saved.get(draft.id);
    return saved === undefined ? hasTurns(draft) : !isSameConversation(saved, draft);
  }

  /** Stores the conversation of a draft if it changed. A conversation without messages is deleted. */
  save(draft: Draft, nowMs = Date.now()): Saved {
    if (!this.isChanged(draft)) return { isStored: true, removed: 0 };
    const before = this.#saved.get(draft.id);
    if (!hasTurns(draft)) {
      this.remove(draft.id);
      return { isStored: true, removed: 0 };
    }
    const entry = this.#entries.get(draft.id);
    // Other parameters do not move a conversation to the top of the list.
    const isSameText = entry !== undefined && before !== undefined && hasSameTurns(before, draft);
    const updatedAtMs = isSameText ? entry.updatedAtMs : nowMs;
    return this.#write(draft.id, { name: entry?.name ?? null, updatedAtMs }, draftText(draft), draft);
  }

  /** Names a conversation; an empty title is replaced by the beginning of the first message. */
  rename(id: string, title: string): void {
    const record = recordOf(this.#items.read(NAME_PREFIX + id) ?? '');
    if (record === null) return;
    const { updatedAtMs, draft } = record;
    const name = title.trim().slice(0, MAX_TITLE) || null;
    this.#write(id, { name, updatedAtMs }, draftText(draft), this.#saved.get(id) ?? null);
  }

  /** Deletes a conversation. Returns a function that restores it; null: it did not exist. */
  remove(id: string): (() => void) | null {
    const key = NAME_PREFIX + id;
    const text = this.#items.read(key);
    this.#items.remove(key);
    this.#entries.delete(id);
    const saved = this.#saved.get(id);
    this.#saved.delete(id);
    this.#publish();
    if (text === null) return null;
    return () => {
      this.#items.write(key, text);
      if (saved) this.#saved.set(id, saved);
      this.#read(id, text);
      this.#publish();
    };
  }

  /**
   * Applies changes of other tabs. Calls `onChange` with the ID of each conversation that another tab changed. Returns a
   * function that stops it.
   */
  follow(onChange: (id: string) => void): () => void {
    return this.#items.onChangedElsewhere((name, text) => {
      if (!name.startsWith(NAME_PREFIX)) return;
      const id = name.slice(NAME_PREFIX.length);
      if (text === null) this.#entries.delete(id);
      else this.#read(id, text);
      this.#publish();
      if (text !== null) onChange(id);
    });
  }

  #write(
    id: string,
    { name, updatedAtMs }: { name: string | null; updatedAtMs: number },
    draft: string,
    saved: Conversation | null,
  ): Saved {
    const text = `{"name":${JSON.stringify(name)},"updatedAtMs":${updatedAtMs},"draft":${draft}}`;
    const removed = this.#makeRoom(id, text.length);
    const isStored = text.length <= MAX_SIZE && this.#items.write(NAME_PREFIX + id, text);
    if (isStored) {
      if (saved) this.#saved.set(id, saved);
      this.#read(id, text);
    }
    this.#publish();
    return { isStored, removed };
  }

  /** Deletes the oldest conversations until there is room for one of this size. Returns how many. */
  #makeRoom(id: string, size: number): number {
    if (size > MAX_SIZE) return 0;
    const others = this.#list.filter((one) => one.id !== id);
    let total = size;
    // The newest ones that fit are kept.
    const kept = others.filter((one, index) => {
      total += this.#entries.get(one.id)?.size ?? 0;
      return total <= MAX_SIZE && index < MAX_CONVERSATIONS - 1;
    });
    for (const oldest of others.slice(kept.length)) {
      this.#items.remove(NAME_PREFIX + oldest.id);
      this.#entries.delete(oldest.id);
    }
    return others.length - kept.length;
  }

  #read(id: string, text: string): void {
    const record = recordOf(text);
    if (record === null) return;
    const { name, updatedAtMs, draft } = record;
    this.#entries.set(id, { id, name, title: name ?? titleOf(draft), updatedAtMs, size: text.length });
  }

  #publish(): void {
    this.#list = [...this.#entries.values()].toSorted((a, b) => b.updatedAtMs - a.updatedAtMs);
    for (const listener of this.#listeners) listener();
  }
}

/** Returns the beginning of the first message of the user, as the title of a conversation. */
function titleOf({ columns }: Pick<Draft, 'columns'>): string {
  const turns = columns.find((column) => column.turns.length > 0)?.turns ?? [];
  const first = turns.find(({ role, text }) => role === 'user' && text.trim() !== '') ?? turns[0];
  const line = first?.text.trim().split('\n', 1)[0]?.trim() ?? '';
  if (line === '') return (first?.images.length ?? 0) > 0 ? 'Image' : 'New chat';
  return line.length <= MAX_TITLE ? line : `${line.slice(0, MAX_TITLE - 1).trimEnd()}…`;
}

/** The message being typed and texts are not part of a conversation. */
function draftText({ system, settings, columns }: Pick<Draft, 'system' | 'settings' | 'columns'>): string {
  return storedText({ system, settings, images: [], columns });
}

function recordOf(text: string): { name: string | null; updatedAtMs: number; draft: Draft } | null {
  const read = readJson(text);
  if (!('value' in read) || !isObject(read.value)) return null;
  const { name, updatedAtMs, draft } = read.value;
  return {
    name: typeof name === 'string' && name !== '' ? name.slice(0, MAX_TITLE) : null,
    updatedAtMs: typeof updatedAtMs === 'number' ? updatedAtMs : 0,
    draft: draftOf(draft),
  };
}
