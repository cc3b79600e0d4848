import type { CompletionKind, Logprob, TokenLogprob } from '../../core/generation.ts';
import { JsonItems } from '../../json/json-items.ts';
import { MIN_LOGPROB } from '../../json/logprobs-reader.ts';

/** The fields of `logprobs` of a choice. */
type LogprobLists = Readonly<Record<string, readonly unknown[] | null>>;

/** Formats `logprobs` of a chat choice, with at most `alternatives` per token. */
export function chatLogprobs(tokens: readonly TokenLogprob[], alternatives: number): LogprobLists {
  return { content: tokenLogprobs(tokens, alternatives), refusal: null };
}

/** Formats the log probabilities of tokens, with at most `alternatives` per token. */
export function tokenLogprobs(tokens: readonly TokenLogprob[], alternatives: number): readonly object[] {
  return tokens.map((token) => ({
    ...entry(token),
    top_logprobs: token.top.slice(0, alternatives).map(entry),
  }));
}

/**
 * Formats `logprobs` of a text choice: four lists of the same length. `offset` is the position of the first token in the
 * text, in Unicode code points.
 */
export function textLogprobs(
  tokens: readonly TokenLogprob[],
  alternatives: number,
  offset: number,
): LogprobLists {
  let at = offset;
  const offsets: number[] = [];
  for (const token of tokens) {
    offsets.push(at);
    at += codePoints(token);
  }
  return {
    tokens: tokens.map((token) => token.token),
    token_logprobs: tokens.map((token) => finite(token.logprob)),
    top_logprobs: tokens.map((token) =>
      Object.fromEntries(token.top.slice(0, alternatives).map((top) => [top.token, finite(top.logprob)])),
    ),
    text_offset: offsets,
  };
}

/** Writes `logprobs` of a choice while its tokens arrive, because a long response has millions of values. */
export class ChoiceLogprobs {
  readonly #kind: CompletionKind;
  readonly #alternatives: number;
  readonly #fields = new Map<string, JsonItems | null>();
  #offset = 0;

  /** `alternatives`: most likely tokens at each position. */
  constructor(kind: CompletionKind, alternatives: number) {
    this.#kind = kind;
    this.#alternatives = alternatives;
    this.add([]);
  }

  /** About how much memory it takes. */
  get heldBytes(): number {
    let bytes = 0;
    for (const items of this.#fields.values()) bytes += items?.heldBytes ?? 0;
    return bytes;
  }

  add(tokens: readonly TokenLogprob[]): void {
    for (const [name, values] of Object.entries(this.#format(tokens))) {
      const items = this.#fields.get(name) ?? (values && new JsonItems());
      if (values !== null) items?.push(values);
      this.#fields.set(name, items);
    }
  }

  /** Returns the JSON object in parts. */
  parts(): readonly Buffer[] {
    const fields = [...this.#fields].flatMap(([name, items], index) => [
      Buffer.from(`${index === 0 ? '{' : ','}"${name}":`),
      ...(items?.array() ?? [Buffer.from('null')]),
    ]);
    return [...fields, Buffer.from('}')];
  }

  #format(tokens: readonly TokenLogprob[]): LogprobLists {
    switch (this.#kind) {
      case 'chat':
        return chatLogprobs(tokens, this.#alternatives);
      case 'text': {
        const offset = this.#offset;
        this.#offset += tokens.reduce((sum, token) => sum + codePoints(token), 0);
        return textLogprobs(tokens, this.#alternatives, offset);
      }
    }
  }
}

/** Returns the Unicode code points of a token. A character of several tokens belongs to the first one. */
export function codePoints({ token, bytes }: Logprob): number {
  let length = 0;
  if (bytes === null) for (const _ of token) length++;
  // The bytes after the first one of a character are 0x80 to 0xBF.
  else for (const byte of bytes) if (byte < 0x80 || byte > 0xbf) length++;
  return length;
}

function entry({ token, logprob, bytes }: Logprob): Logprob {
  return { token, logprob: finite(logprob), bytes };
}

function finite(logprob: number): number {
  return Number.isFinite(logprob) ? logprob : MIN_LOGPROB;
}
