import type { UserRecords } from '../../state/user-records.ts';
import { hasTurns, opened, type Conversation } from './draft.ts';

export interface StoredConversation extends Conversation {
  /** As given by the user; null: the beginning of the first message. */
  name: string | null;
  /** When its messages were last changed, Unix milliseconds. */
  updatedAtMs: number;
}

/** Maximum number of conversations that a browser keeps for a user. */
export const MAX_CONVERSATIONS = 200;
/** Maximum length of a title, in characters. */
export const MAX_TITLE = 80;

/**
 * The conversations of a user. Above the maximum number, the oldest are deleted. If two tabs change one at once, the last
 * change is kept. Methods reject if the storage is full or blocked.
 */
export class Conversations {
  readonly #records: UserRecords<StoredConversation>;
  /** As this tab last read or wrote them, to skip those without changes. */
  readonly #known = new Map<string, Conversation>();

  constructor(records: UserRecords<StoredConversation>) {
    this.#records = records;
  }

  async list(): Promise<StoredConversation[]> {
    return (await this.#records.all()).toSorted((a, b) => b.updatedAtMs - a.updatedAtMs);
  }

  /** Returns a conversation to be shown; null: it was deleted. */
  async read(id: string): Promise<StoredConversation | null> {
    const stored = await this.#records.read(id);
    return stored === undefined ? null : { ...stored, ...opened(stored) };
  }

  /** Called when a tab shows a conversation as it was stored. */
  show({ id, system, settings, columns }: Conversation): Conversation {
    const conversation = { id, system, settings, columns };
    this.#known.set(id, conversation);
    return conversation;
  }

  /** Returns whether a conversation differs from what this tab read or wrote. */
  isChanged(draft: Conversation): boolean {
    const known = this.#known.get(draft.id);
    if (known === undefined) return hasTurns(draft);
    const { system, settings, columns } = draft;
    return known.system !== system || known.settings !== settings || known.columns !== columns;
  }

  /**
   * Stores a conversation if it changed. A conversation without messages is deleted. Returns the number of older ones that
   * were deleted for it.
   */
  async save(draft: Conversation, nowMs = Date.now()): Promise<number> {
    const { id, system, settings, columns } = draft;
    if (!this.isChanged(draft)) return 0;
    if (!hasTurns(draft)) {
      await this.remove(id);
      return 0;
    }
    const known = this.#known.get(id);
    let isNew = false;
    await this.#records.update(id, (stored) => {
      isNew = stored === undefined;
      // Other parameters do not move a conversation to the top of the list.
      const updatedAtMs = stored && known?.columns === columns ? stored.updatedAtMs : nowMs;
      return { id, name: stored?.name ?? null, updatedAtMs, system, settings, columns };
    });
    this.#known.set(id, { id, system, settings, columns });
    return isNew ? await this.#removeOldest() : 0;
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
