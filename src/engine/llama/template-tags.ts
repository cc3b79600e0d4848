/** Tracks the elements that are open in the text of a template, such as `<tool_call>` and `<parameter=key>`. */
export class OpenElements {
  readonly #names: string[] = [];
  #tags: RegExp | null = null;

  /** Reads a part of the template's text. Control tokens such as `<|im_end|>` are not tags. */
  read(text: string): void {
    for (const [, slash, name = ''] of text.matchAll(/<(\/?)([a-z_][\w:.-]*)(?=[\s>=])/gi)) {
      if (slash === '') this.#names.push(name);
      else if (this.#names.includes(name)) this.#names.length = this.#names.lastIndexOf(name);
      this.#tags = null;
    }
  }

  /** Matches the `<` in tags of the open elements. Null if no element is open. */
  get tags(): RegExp | null {
    if (this.#names.length === 0) return null;
    if (this.#tags !== null) return this.#tags;
    const names = [...new Set(this.#names)].map((name) => RegExp.escape(name));
    this.#tags = new RegExp(String.raw`<(?=/?(?:${names.join('|')})(?![\w:.-]))`, 'gi');
    return this.#tags;
  }
}

/** The encoding of a text in the output of a template. */
export interface Encoding {
  /** How often it was encoded as JSON. */
  depth: number;
  /** Whether JSON escapes all characters outside ASCII. */
  ascii: boolean;
}

/**
 * Escapes a text for its place in the output of a template. `tags` matches the tags that the text must not contain;
 * null if it may contain any. In JSON, the `<` of such a tag becomes `\u003c`, elsewhere `&lt;`.
 */
export function escapeFor({ depth, ascii }: Encoding, text: string, tags: RegExp | null): string {
  if (depth === 0) return tags === null ? text : text.replace(tags, '&lt;');
  let encoded = jsonEscape(text);
  if (tags !== null) encoded = encoded.replace(tags, String.raw`\u003c`);
  if (ascii) encoded = encoded.replace(/[\x7f-\uffff]/g, unicodeEscape);
  for (let i = 1; i < depth; i++) encoded = jsonEscape(encoded);
  return encoded;
}

/** Escapes a key outside JSON, where it can be part of a tag, as in `<parameter=key>`. */
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
