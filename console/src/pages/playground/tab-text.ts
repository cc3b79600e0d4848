import { EMPTY_DRAFT, newId, opened, type Draft } from './draft.ts';

/** Of the stored texts. Those of other versions are ignored. */
const VERSION = 2;

export function tabText(draft: Draft): string {
  return JSON.stringify({ version: VERSION, draft });
}

/** Returns a stored text without its images, which can be too large. */
export function withoutImages(text: string): string {
  return JSON.stringify(JSON.parse(text), (name, value: unknown) => (name === 'images' ? [] : value));
}

/** Returns the draft in a stored text; an empty one if there is none, or only that of another version. */
export function fromTabText(text: string | null): Draft {
  try {
    // Only this version writes such texts.
    const { version, draft } = JSON.parse(text ?? '') as { version: unknown; draft: Draft };
    if (version === VERSION) return { ...draft, ...opened(draft), id: draft.id || newId() };
  } catch {
    // An empty one.
  }
  return { ...EMPTY_DRAFT, id: newId() };
}
