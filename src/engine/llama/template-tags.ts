/**
 * Returns an expression for the `<` of tags that a template uses, such as `<tool_call>`, `</parameter>` and `<function=`.
 * `texts`: the template's source, and text that it rendered. Null: none. Control tokens such as `<|im_end|>` are not
 * included, because the tokenizer does not recognize them in untrusted text.
 */
export function tagsOf(texts: readonly string[]): RegExp | null {
  const names = new Set<string>();
  for (const text of texts) {
    for (const [, name] of text.matchAll(/<\/?([a-z_][\w:.-]*)(?=[\s>=])/gi)) if (name) names.add(name);
  }
  if (names.size === 0) return null;
  const alternatives = [...names].map((name) => RegExp.escape(name)).join('|');
  return new RegExp(String.raw`<(?=/?(?:${alternatives})(?![\w:.-]))`, 'gi');
}

/** How a template encoded a text. */
export interface Encoding {
  /** How often it was encoded as JSON. */
  depth: number;
  /** Whether JSON escapes all characters outside ASCII. */
  ascii: boolean;
}

/**
 * Escapes a text for its place in the output of a template. `tags`: the tags that the text must not contain; null: it may
 * contain any. In JSON, the value remains the same. Elsewhere, a tag becomes `&lt;tag>`.
 */
export function escapeFor({ depth, ascii }: Encoding, text: string, tags: RegExp | null): string {
  if (depth === 0) return tags === null ? text : text.replace(tags, '&lt;');
  let encoded = jsonEscape(text);
  if (tags !== null) encoded = encoded.replace(tags, String.raw`\u003c`);
  if (ascii) encoded = encoded.replace(/[\x7f-\uffff]/g, unicodeEscape);
  for (let i = 1; i < depth; i++) encoded = jsonEscape(encoded);
  return encoded;
}

/** Escapes a key that was not encoded as JSON, because it can be part of a tag, as in `<parameter=key>`. */
export function escapeRawKey(key: string): string {
  return key.replace(/[<>"]/g, (character) => ENTITIES[character] ?? character);
}

const ENTITIES: Readonly<Record<string, string>> = { '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function unicodeEscape(codeUnit: string): string {
  return `\\u${codeUnit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function jsonEscape(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
