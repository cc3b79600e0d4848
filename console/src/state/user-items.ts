/** Texts that all tabs of a user share, by name. They are deleted at sign-out. */
export interface UserItems {
  /** Returns all texts by name. Empty if storage is unavailable. */
  all(): Map<string, string>;
  /** Returns a text; null: none, or storage is unavailable. */
  read(name: string): string | null;
  /** Stores a text. Returns false if the storage is full or unavailable. */
  write(name: string, text: string): boolean;
  remove(name: string): void;
  /**
   * Calls `onChange` after another tab changed a text; null: it was deleted. Returns a function that unsubscribes.
   */
  onChangedElsewhere(onChange: (name: string, text: string | null) => void): () => void;
}
