import type { NativeModel } from '../native/model.ts';
import { decodeByteLevel } from './byte-level.ts';
import { withAnchor } from './character-assembler.ts';
import { TextCuts } from './text-cuts.ts';

/** A model's tokens. Decodes them with a lookup if the tokenizer type is known, otherwise with llama.cpp. */
export class Vocabulary {
  readonly size: number;
  /** Bytes of the longest token: a text of n bytes has at least n / longestBytes tokens. */
  readonly longestBytes: number;
  /** Matches the text of control tokens. Null if there are none. */
  readonly controls: RegExp | null;
  /** Texts of tokens that llama.cpp recognizes even in user text: `<tool_call>`, white space or HTML tags, for example. */
  readonly userDefined: readonly string[];
  /** Cuts texts where this does not change their tokens. */
  readonly cuts: TextCuts;
  readonly #model: NativeModel;
  readonly #bytesOf: BytesRule | null;
  readonly #endTokens = new Set<number>();
  /** Texts of the control tokens that do not end the output. */
  readonly #controlTexts = new Map<number, string>();
  readonly #texts: (string | undefined)[];
  readonly #detokenize: (tokens: Uint32Array) => string;

  /** Reads all `size` tokens, which must exist. This takes about 0.5 µs per token. */
  constructor(model: NativeModel, size: number) {
    this.size = size;
    this.#model = model;
    this.#texts = Array.from({ length: size });
    const controls: string[] = [];
    const userDefined: string[] = [];
    const ordinary: string[] = [];
    const stripping = new Set<string>();
    let longest = 1;
    for (let id = 0; id < size; id++) {
      const token = model.token(id);
      if (token.ends) this.#endTokens.add(id);
      if (token.attributes & CONTROLS && token.text !== '') {
        controls.push(token.text);
        if (!token.ends) this.#controlTexts.set(id, token.text);
      }
      if (token.attributes & USER_DEFINED) userDefined.push(token.text);
      if ((token.attributes & (CONTROLS | USER_DEFINED)) === 0) ordinary.push(token.text);
      else if (token.attributes & STRIPS_RIGHT) stripping.add(token.text);
      // With both of the `RULES`, the text of a token has at least as many bytes as the token.
      longest = Math.max(longest, Buffer.byteLength(token.text));
    }
    this.longestBytes = longest;
    this.controls = anyOf(controls);
    this.userDefined = userDefined;
    const specials = [...controls, ...userDefined];
    this.cuts = new TextCuts({
      type: model.vocabularyType,
      tokens: ordinary,
      specials: anyOf(specials),
      longestSpecial: Math.max(0, ...specials.map((text) => text.length)),
      stripping,
      addsSpace: addsSpace(model),
    });
    const anchor = model.bosToken ?? this.#endTokens.values().next().value ?? 0;
    this.#detokenize = withAnchor((tokens) => model.detokenize(tokens, false), anchor);
    const rule = RULES[model.vocabularyType];
    this.#bytesOf = rule !== undefined && ruleMatches(rule, model, size, this.#detokenize) ? rule : null;
  }

  ends(token: number): boolean {
    return this.#endTokens.has(token);
  }

  /** Decodes tokens in the middle of a text. Control tokens have no text; incomplete characters become U+FFFD. */
  text(tokens: Uint32Array): string {
    if (tokens.length === 1) return this.tokenText(tokens[0] as number);
    const rule = this.#bytesOf;
    if (rule === null) return this.#detokenize(tokens);
    return DECODER.decode(Buffer.concat(Array.from(tokens, (token) => this.#bytes(rule, token))));
  }

  isControl(token: number): boolean {
    return this.#controlTexts.has(token);
  }

  /** Like `text`, but includes the text of control tokens, which mark calls and reasoning. */
  textWithControls(tokens: Uint32Array): string {
    const at = tokens.findLastIndex((token) => this.#controlTexts.has(token));
    if (at === -1) return this.text(tokens);
    const before = at === 0 ? '' : this.textWithControls(tokens.subarray(0, at));
    const after = at === tokens.length - 1 ? '' : this.text(tokens.subarray(at + 1));
    return before + (this.#controlTexts.get(tokens[at] as number) ?? '') + after;
  }

  tokenText(token: number): string {
    const known = this.#texts[token];
    if (known !== undefined) return known;
    const rule = this.#bytesOf;
    const text =
      rule === null ? this.#detokenize(Uint32Array.of(token)) : DECODER.decode(this.#bytes(rule, token));
    this.#texts[token] = text;
    return text;
  }

  /** Returns a token's bytes, which can be part of a character. Returns null if the tokenizer type is unknown. */
  tokenBytes(token: number): Uint8Array | null {
    return this.#bytesOf === null ? null : this.#bytes(this.#bytesOf, token);
  }

  #bytes(rule: BytesRule, token: number): Uint8Array {
    const { text, attributes } = this.#model.token(token);
    return attributes & CONTROLS ? NO_BYTES : rule(text, attributes);
  }
}

/**
 * Returns a regular expression that matches any of the texts, longer ones first as in llama.cpp. Returns null if there
 * are none.
 */
export function anyOf(texts: readonly string[]): RegExp | null {
  if (texts.length === 0) return null;
  const longestFirst = texts.toSorted((a, b) => b.length - a.length);
  return new RegExp(longestFirst.map((text) => RegExp.escape(text)).join('|'), 'g');
}

type BytesRule = (text: string, attributes: number) => Uint8Array;

/** llama.cpp's bits of token attributes. */
const UNKNOWN = 1;
const CONTROL = 8;
const USER_DEFINED = 16;
const BYTE = 32;
const STRIPS_RIGHT = 256;
const CONTROLS = UNKNOWN | CONTROL;

const NO_BYTES = new Uint8Array(0);
const DECODER = new TextDecoder('utf-8', { ignoreBOM: true });

/** Functions that return a token's bytes, by llama.cpp's tokenizer type: 1 is SentencePiece, 2 is byte-level BPE. */
const RULES: Partial<Record<number, BytesRule>> = {
  1: (text, attributes) => {
    if (attributes & BYTE) return Uint8Array.of(Number.parseInt(text.slice(3, 5), 16)); // "<0xE2>"
    return Buffer.from(attributes & USER_DEFINED ? text : text.replaceAll('▁', ' '));
  },
  2: (text, attributes) => {
    if (attributes & USER_DEFINED) return Buffer.from(text);
    return decodeByteLevel(text);
  },
};

/** Whether llama.cpp adds a space before every text, as SentencePiece does. */
function addsSpace(model: NativeModel): boolean {
  const [first] = model.tokenize('a', false);
  return first !== undefined && model.token(first).text.startsWith('▁');
}

/** Compares the rule with llama.cpp for a sample of tokens, because some vocabularies declare a wrong type. */
function ruleMatches(
  rule: BytesRule,
  model: NativeModel,
  size: number,
  detokenize: (tokens: Uint32Array) => string,
): boolean {
  const stride = Math.max(1, Math.floor(size / 256));
  for (let id = 0; id < size; id += stride) {
    const { text, attributes } = model.token(id);
    if (attributes & CONTROLS) continue;
    if (DECODER.decode(rule(text, attributes)) !== detokenize(Uint32Array.of(id))) return false;
  }
  return true;
}
