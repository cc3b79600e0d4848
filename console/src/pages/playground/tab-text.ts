import { EMPTY_DRAFT, newId, opened, type Draft } from './draft.ts';

/** Of the stored texts. Those of other versions are ignored. */
const VERSION = 2;

/** Returns the text that a tab keeps. `revisions` are those of the stored conversation which the draft may continue. */
export function tabText(draft: Draft, revisions: readonly string[]): string {
  return JSON.stringify({ version: VERSION, draft, revisions });
}

/** Returns a stored text without its images, which can be too large. */
export function withoutImages(text: string): string {
  return JSON.stringify(JSON.parse(text), (name, value: unknown) => (name === 'images' ? [] : value));
}

/** Returns the draft in a stored text; an empty one if there is none, or only that of another version. */
export function fromTabText(text: string | null): { draft: Draft; revisions: readonly string[] } {
  try {
    // Only this version writes such texts.
    const stored = JSON.parse(text ?? '') as { version: unknown; draft: Draft; revisions: readonly string[] };
    if (stored.version === VERSION) {
      const { draft, revisions } = stored;
      return { draft: { ...draft, ...opened(draft), id: draft.id || newId() }, revisions };
    }
  } catch {
    // An empty one.
  }
  return { draft: { ...EMPTY_DRAFT, id: newId() }, revisions: [] };
}
