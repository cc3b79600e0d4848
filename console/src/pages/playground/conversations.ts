import type { UserRecords } from '../../state/user-records.ts';
import { hasTurns, newId, opened, type Conversation } from './draft.ts';

/** A conversation of a user in this browser. */
export interface StoredConversation extends Conversation {
  /** As given by the user; null: the beginning of the first message. */
  name: string | null;
  /** When its messages were last changed, Unix milliseconds. */
  updatedAtMs: number;
  /** Another one after each change except of the name. */
  revision: string;
}

/** Maximum number of conversations that a browser keeps for a user. */
export const MAX_CONVERSATIONS = 200;
/** Maximum length of a title, in characters. */
export const MAX_TITLE = 80;

/** A conversation as this tab last read or wrote it. */
interface Known extends Partial<Omit<Conversation, 'id'>> {
  revision: string | null;
  /** The revision that is being written, or that could not be written. */
  next?: string;
}

/** The conversations of a user. Above the maximum number, the oldest are deleted. Methods reject if the storage is full or blocked. */
export class Conversations {
  readonly #records: UserRecords<StoredConversation>;
  /** To skip those without changes, and to keep what another tab has written. */
  readonly #known = new Map<string, Known>();

  constructor(records: UserRecords<StoredConversation>) {
    this.#records = records;
  }

  /** Returns the conversations, the newest first. */
  async list(): Promise<StoredConversation[]> {
    return (await this.#records.all()).toSorted((a, b) => b.updatedAtMs - a.updatedAtMs);
  }

  /** Returns a conversation to be shown; null: it was deleted. */
  async read(id: string): Promise<StoredConversation | null> {
    const stored = await this.#records.read(id);
    return stored === undefined ? null : { ...stored, ...opened(stored) };
  }

  /** Called when a tab shows a conversation: its next change replaces what was read. */
  show({ id, system, settings, columns, revision }: StoredConversation): Conversation {
    this.#known.set(id, { system, settings, columns, revision });
    return { id, system, settings, columns };
  }

  /**
   * Continues with changes of this tab that were not stored. `revisions` are those of `revisionsOf` before a reload, which can
   * end a write whose result the tab did not learn.
   */
  resume(id: string, revisions: readonly string[], stored: StoredConversation | null): void {
    const revision = revisions.find((one) => one === stored?.revision) ?? revisions[0] ?? null;
    this.#known.set(id, { ...NOTHING, revision });
  }

  /** Returns the revision that the conversation of this tab continues, and the one that is being written. */
  revisionsOf(id: string): string[] {
    const { revision, next } = this.#known.get(id) ?? NOTHING;
    return [revision, next].filter((one) => typeof one === 'string');
  }

  /** Returns whether a conversation differs from what this tab read or wrote. */
  isChanged(draft: Conversation): boolean {
    const known = this.#known.get(draft.id) ?? NOTHING;
    const { system, settings, columns } = draft;
    if (known.revision === null && !hasTurns(draft)) return false;
    return known.system !== system || known.settings !== settings || known.columns !== columns;
  }

  /**
   * Stores a conversation if it changed. A conversation without messages is deleted. Returns the ID that it is stored
   * under, which is a new one if another tab has written it, and the number of older ones that were deleted for it.
   */
  async save(draft: Conversation, nowMs = Date.now()): Promise<{ id: string; removed: number }> {
    const { id, system, settings, columns } = draft;
    if (!this.isChanged(draft)) return { id, removed: 0 };
    const known = this.#known.get(id) ?? NOTHING;
    if (!hasTurns(draft)) {
      // Not what another tab has written.
      if ((await this.#records.read(id))?.revision === known.revision) await this.remove(id);
      this.#known.delete(id);
      return { id, removed: 0 };
    }
    const revision = newId();
    this.#known.set(id, { ...known, next: revision });
    let old: StoredConversation | undefined;
    await this.#records.update(id, (stored) => {
      old = stored;
      if (stored && stored.revision !== known.revision) return stored;
      // Other parameters do not move a conversation to the top of the list.
      const updatedAtMs = stored && known.columns === columns ? stored.updatedAtMs : nowMs;
      return { id, name: stored?.name ?? null, updatedAtMs, revision, system, settings, columns };
    });
    if (old && old.revision !== known.revision) return await this.save({ ...draft, id: newId() }, nowMs);
    this.#known.set(id, { system, settings, columns, revision });
    return { id, removed: old === undefined ? await this.#removeOldest() : 0 };
  }

  /** Names a conversation; an empty title is replaced by the beginning of the first message. */
  async rename(id: string, title: string): Promise<void> {
    const stored = await this.#records.read(id);
    if (stored === undefined) return;
    const name = title.trim().slice(0, MAX_TITLE) || null;
    await this.#records.update(id, (newest = stored) => ({ ...newest, name }));
  }

  /** Deletes a conversation. Returns a function that restores it; null: it did not exist. */
  async remove(id: string): Promise<(() => Promise<void>) | null> {
    const stored = await this.#records.read(id);
    await this.#records.remove(id);
    this.#known.delete(id);
    // Another tab may have continued it.
    return stored ? () => this.#records.update(id, (newest = stored) => newest) : null;
  }

  async #removeOldest(): Promise<number> {
    if ((await this.#records.count()) <= MAX_CONVERSATIONS) return 0;
    const oldest = (await this.list()).slice(MAX_CONVERSATIONS);
    await this.#records.remove(...oldest.map(({ id }) => id));
    return oldest.length;
  }
}

const NOTHING: Known = { revision: null };

/** Returns the name of a conversation, else the beginning of the first message of the user. */
export function titleOf({ name, columns }: Pick<StoredConversation, 'name' | 'columns'>): string {
  if (name !== null) return name;
  const turns = columns.find((column) => column.turns.length > 0)?.turns ?? [];
  const first = turns.find(({ role, text }) => role === 'user' && text.trim() !== '') ?? turns[0];
  const line = first?.text.trim().split('\n', 1)[0]?.trim() ?? '';
  if (line === '') return (first?.images.length ?? 0) > 0 ? 'Image' : 'New chat';
  return line.length <= MAX_TITLE ? line : `${line.slice(0, MAX_TITLE - 1).trimEnd()}…`;
}

/** Returns whether the title or a message of a conversation contains a text, ignoring case. */
export function contains(conversation: StoredConversation, query: string): boolean {
  const turns = conversation.columns.flatMap(({ turns }) => turns.map(({ text }) => text));
  const wanted = query.trim().toLowerCase();
  return [titleOf(conversation), ...turns].some((text) => text.toLowerCase().includes(wanted));
}
