import { EMPTY_DRAFT, newId, opened, type Draft } from './draft.ts';

/** Of the stored texts. Those of other versions are ignored. */
const VERSION = 1;

/** Returns the text that a tab keeps. `revision` is that of the stored conversation which the draft continues. */
export function tabText(draft: Draft, revision: string | null): string {
  return JSON.stringify({ version: VERSION, draft, revision });
}

/** Returns a stored text without its images, which can be too large. */
export function withoutImages(text: string): string {
  return JSON.stringify(JSON.parse(text), (name, value: unknown) => (name === 'images' ? [] : value));
}

/** Returns the draft in a stored text; an empty one if there is none, or only that of another version. */
export function fromTabText(text: string | null): { draft: Draft; revision: string | null } {
  try {
    // Only this version writes such texts.
    const stored = JSON.parse(text ?? '') as { version: unknown; draft: Draft; revision: string | null };
    if (stored.version === VERSION) {
      const { draft, revision } = stored;
      return { draft: { ...draft, ...opened(draft), id: draft.id || newId() }, revision };
    }
  } catch {
    // An empty one.
  }
  return { draft: { ...EMPTY_DRAFT, id: newId() }, revision: null };
}
