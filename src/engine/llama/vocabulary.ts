import type { NativeModel } from './binding.ts';
import { midText } from './text-stream.ts';

/**
 * What the tokens of a model are: their bytes, which of them end a text, which control it. Text is made from
 * the tokens' bytes here, at a lookup a token, where the tokenizer is of a kind whose rule is known; else by
 * llama.cpp.
 */
export class Vocabulary {
  readonly size: number;
  /** Bytes of the longest token: a text of n bytes has at least n / longestBytes tokens. */
  readonly longestBytes: number;
  /** The texts of the control tokens, which nobody but the chat template may write. Global; null: there are none. */
  readonly controls: RegExp | null;
  readonly #model: NativeModel;
  readonly #bytesOf: BytesRule | null;
  readonly #ends = new Set<number>();
  readonly #texts: (string | undefined)[];
  readonly #native: (tokens: Uint32Array) => string;

  /** Reads all of the vocabulary: some 0.5 µs a token. `size` must not be larger than it. */
  constructor(model: NativeModel, size: number) {
    this.size = size;
    this.#model = model;
    this.#texts = Array.from({ length: size });
    const controls: string[] = [];
    const texts: string[] = [];
    let longest = 1;
    for (let id = 0; id < size; id++) {
      const token = model.token(id);
      texts.push(token.text);
      if (token.ends) this.#ends.add(id);
      if (token.attributes & CONTROLS && token.text !== '') controls.push(token.text);
      // Both known rules store at least one character a byte, and "▁" or a byte's stand-in is never longer than that.
      longest = Math.max(longest, Buffer.byteLength(token.text));
    }
    this.longestBytes = longest;
    // The longest first, as llama.cpp matches them.
    controls.sort((a, b) => b.length - a.length);
    this.controls =
      controls.length === 0 ? null : new RegExp(controls.map((text) => RegExp.escape(text)).join('|'), 'g');
    const anchor = model.bosToken ?? this.#ends.values().next().value ?? 0;
    this.#native = midText((tokens) => model.detokenize(tokens, false), anchor);
    const rule = RULES[model.vocabularyType];
    this.#bytesOf = rule !== undefined && agrees(rule, model, size, this.#native) ? rule : null;
  }

  /** Whether a model says with this token that its text has ended. */
  ends(token: number): boolean {
    return this.#ends.has(token);
  }

  /** Text of tokens in the middle of a text; control tokens have none; unfinished characters are U+FFFD. */
  text(tokens: Uint32Array): string {
    if (tokens.length === 1) return this.tokenText(tokens[0] as number); // It has one.
    const rule = this.#bytesOf;
    if (rule === null) return this.#native(tokens);
    return DECODER.decode(Buffer.concat(Array.from(tokens, (token) => this.#bytes(rule, token))));
  }

  /** Text of one token by itself. */
  tokenText(token: number): string {
    const known = this.#texts[token];
    if (known !== undefined) return known;
    const rule = this.#bytesOf;
    const text =
      rule === null ? this.#native(Uint32Array.of(token)) : DECODER.decode(this.#bytes(rule, token));
    this.#texts[token] = text;
    return text;
  }

  /** A token's bytes, part of a character perhaps; null where this kind of tokenizer does not tell. Control tokens have none. */
  tokenBytes(token: number): Uint8Array | null {
    return this.#bytesOf === null ? null : this.#bytes(this.#bytesOf, token);
  }

  #bytes(rule: BytesRule, token: number): Uint8Array {
    const { text, attributes } = this.#model.token(token);
    return attributes & CONTROLS ? NONE : rule(text, attributes);
  }
}

type BytesRule = (text: string, attributes: number) => Uint8Array;

/** llama.cpp's bits of a token's attributes. */
const UNKNOWN = 1;
const CONTROL = 8;
const USER_DEFINED = 16;
const BYTE = 32;
const CONTROLS = UNKNOWN | CONTROL;

const NONE = new Uint8Array(0);
const DECODER = new TextDecoder('utf-8', { ignoreBOM: true });

/** By llama.cpp's numbers of tokenizer kinds: 1 SentencePiece, 2 byte-level BPE. */
const RULES: Partial<Record<number, BytesRule>> = {
  1: (text, attributes) => {
    if (attributes & BYTE) return Uint8Array.of(Number.parseInt(text.slice(3, 5), 16)); // "<0xE2>"
    return Buffer.from(attributes & USER_DEFINED ? text : text.replaceAll('▁', ' '));
  },
  2: (text, attributes) => {
    if (attributes & USER_DEFINED) return Buffer.from(text);
    return Uint8Array.from(text, (character) => BYTE_OF.get(character) ?? 0x3f);
  },
};

/** GPT-2's stand-ins: printable Latin-1 characters are themselves, the other bytes follow from U+0100 on. */
const BYTE_OF: ReadonlyMap<string, number> = (() => {
  const map = new Map<string, number>();
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    map.set(String.fromCodePoint(printable ? byte : next++), byte);
  }
  return map;
})();

/** Some vocabularies name one kind and store another's texts: the rule holds where llama.cpp says the same for tokens all over it. */
function agrees(
  rule: BytesRule,
  model: NativeModel,
  size: number,
  native: (tokens: Uint32Array) => string,
): boolean {
  const stride = Math.max(1, Math.floor(size / 256));
  for (let id = 0; id < size; id += stride) {
    const { text, attributes } = model.token(id);
    if (attributes & CONTROLS) continue;
    if (DECODER.decode(rule(text, attributes)) !== native(Uint32Array.of(id))) return false;
  }
  return true;
}
