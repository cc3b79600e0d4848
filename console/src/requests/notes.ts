import type { ItemOf } from '../api/client.ts';

type Note = ItemOf<'listRequests'>['notes'][number];

/** Label and explanation of what can be unusual about a request. */
export const NOTES: Readonly<Record<Note, { label: string; hint: string }>> = {
  changed_input: { label: 'Changed input', hint: 'Parts of the request had no effect, or were changed' },
  cache_miss: { label: 'Cache miss', hint: 'A prompt was computed again that an earlier request had sent' },
  retried: { label: 'Retried', hint: 'A replica failed or refused the request first' },
  continued: { label: 'Continued', hint: 'Another replica continued the response' },
  truncated: { label: 'Truncated', hint: 'Reached the maximum number of tokens or the context length' },
  filtered: { label: 'Filtered', hint: 'A content filter withheld or cut off the response' },
  estimated: { label: 'Estimated tokens', hint: 'The replica did not report valid token counts' },
};

/** Returns the note of this name; null: there is none. */
export const noteOf = (text: string): Note | null =>
  // The key was found.
  Object.hasOwn(NOTES, text) ? (text as Note) : null;
