import { createStore, delMany, get, getMany, keys, update } from 'idb-keyval';

/** Users who signed out. Pages that are still open store their state once more when they are left. */
export const signedOut = new Set<string>();

/** In IndexedDB, which has room for conversations with images. */
const store = createStore('sluice', 'records');

type RecordKey = [userId: string, kind: string, id: string];

/** Objects of one kind that a user keeps in this browser, by ID, for all tabs. Methods reject if the storage is full or blocked. */
export class UserRecords<Value> {
  readonly #userId: string;
  readonly #kind: string;

  constructor(userId: string, kind: string) {
    this.#userId = userId;
    this.#kind = kind;
  }

  async all(): Promise<Value[]> {
    const all = await getMany<Value>(await this.#keys(), store);
    return all.filter((value) => value !== undefined);
  }

  async count(): Promise<number> {
    return (await this.#keys()).length;
  }

  async read(id: string): Promise<Value | undefined> {
    return await get<Value>(this.#keyOf(id), store);
  }

  /** Replaces a record by what `change` returns for it. No other tab writes in between. */
  async update(id: string, change: (stored: Value | undefined) => Value): Promise<void> {
    if (signedOut.has(this.#userId)) return;
    await update<Value>(this.#keyOf(id), change, store);
  }

  async remove(...ids: readonly string[]): Promise<void> {
    await delMany(
      ids.map((id) => this.#keyOf(id)),
      store,
    );
  }

  async #keys(): Promise<RecordKey[]> {
    return (await keys<RecordKey>(store)).filter(
      ([user, kind]) => user === this.#userId && kind === this.#kind,
    );
  }

  #keyOf(id: string): RecordKey {
    return [this.#userId, this.#kind, id];
  }
}

/** Deletes the records of the users that match. Does nothing if the storage is blocked. */
export async function deleteRecords(matches: (userId: string) => boolean): Promise<void> {
  try {
    const found = (await keys<RecordKey>(store)).filter(([userId]) => matches(userId));
    await delMany(found, store);
  } catch {
    // There is nothing that could be read either.
  }
}
