import { MAX_TOOL_CALLS, type FinishReason, type TokenLogprob } from '../../../core/generation.ts';
import { CharacterAssembler } from '../prompt/character-assembler.ts';
import { SequenceMatcher } from '../tool-calls/sequence-matcher.ts';
import { OutputParser, type OutputParserOptions, type OutputState } from '../tool-calls/output-parser.ts';
import type { OutputPart } from '../tool-calls/call-writer.ts';
import type { Vocabulary } from '../prompt/vocabulary.ts';

export interface ChoiceOutputOptions extends OutputParserOptions {
  vocabulary: Pick<Vocabulary, 'text' | 'textWithControls' | 'isControl'>;
  /**
   * Stop sequences. They apply only to text, not to reasoning or calls. Empty ones and ones with unpaired surrogates are
   * ignored.
   */
  stop: readonly string[];
  /** Whether the output ends after one call. */
  oneCall: boolean;
}

/** The output of one choice, from tokens to parts. Without tools and reasoning, all of it is text. */
export class ChoiceOutput {
  readonly #vocabulary: ChoiceOutputOptions['vocabulary'];
  readonly #characters: CharacterAssembler;
  /** Null if all of the output is text. */
  readonly #parser: OutputParser | null;
  readonly #stop: SequenceMatcher;
  readonly #logprobs = new HeldLogprobs();
  readonly #oneCall: boolean;
  /** The text that ends the reasoning; null if the model does not reason. */
  readonly #close: string | null;
  #stopSequence: string | null = null;
  #calls = 0;
  /** The end of the reasoning so far, which is shorter than `#close`. */
  #reasoningEnd = '';

  constructor({ vocabulary, stop, oneCall, ...options }: ChoiceOutputOptions) {
    const isText = options.format === null && options.reasoning === null;
    this.#vocabulary = vocabulary;
    // Control tokens mark calls and reasoning.
    this.#characters = new CharacterAssembler((tokens) =>
      isText ? vocabulary.text(tokens) : vocabulary.textWithControls(tokens),
    );
    this.#parser = isText ? null : new OutputParser(options);
    this.#stop = new SequenceMatcher(stop.filter((sequence) => sequence !== '' && sequence.isWellFormed()));
    this.#oneCall = oneCall;
    this.#close = options.reasoning?.close ?? null;
  }

  get state(): OutputState {
    return this.#parser?.state ?? 'text';
  }

  /** The finish reason if the output must end now; null if it may continue. */
  get finishReason(): FinishReason | null {
    if (this.#stopSequence !== null) return 'stop';
    // Requests cannot contain a message with more calls.
    const maxCalls = this.#oneCall ? 1 : MAX_TOOL_CALLS;
    return (this.#parser?.completedCalls ?? 0) >= maxCalls ? 'tool_calls' : null;
  }

  /** The stop sequence that has matched; null if none has. No more parts are returned after a match. */
  get stopSequence(): string | null {
    return this.#stopSequence;
  }

  /** Number of calls that have begun. */
  get calls(): number {
    return this.#calls;
  }

  /**
   * Adds a token that does not end the output. Returns the parts that are ready, often none. `logprob` is returned with
   * the text of the token, or dropped if its text does not become part of the response.
   */
  push(token: number, logprob: TokenLogprob | null): ChoicePart[] {
    const before = this.state;
    const text = this.#characters.push(token);
    const isControl = this.#vocabulary.isControl(token);
    if (logprob !== null && !isControl) this.#logprobs.add(text, logprob);
    const parts = this.#search(this.#parse(text, isControl));
    if (this.#close !== null && this.state === 'reasoning')
      this.#reasoningEnd = (this.#reasoningEnd + text).slice(1 - this.#close.length);
    // The end of a call or of the reasoning is not part of the text.
    if (before !== 'text' && this.state === 'text') this.#logprobs.clear();
    return parts;
  }

  /**
   * Returns the part of a token's text that ends the reasoning if the token also has text of the answer, apart from white
   * space; otherwise null. Call it before `push`, inside the reasoning.
   */
  endOfReasoning(token: number): string | null {
    if (this.#close === null) return null;
    const text = this.#vocabulary.textWithControls(Uint32Array.of(token));
    const whole = this.#reasoningEnd + text;
    const at = whole.indexOf(this.#close);
    const answer = at === -1 ? '' : whole.slice(at + this.#close.length);
    return answer.trim() === '' ? null : text.slice(0, text.length - answer.length);
  }

  /** Ends the output. Returns the parts that were held back. */
  flush(): ChoicePart[] {
    const rest = this.#parse(this.#characters.flush(), false);
    const parts = this.#search([...rest, ...(this.#parser?.flush() ?? [])]);
    if (this.#stopSequence === null) this.#addText(parts, this.#stop.flush());
    return parts;
  }

  /** The text of a control token is parsed, but is not part of the response. */
  #parse(text: string, isControl: boolean): OutputPart[] {
    if (this.#parser === null) return text === '' ? [] : [{ type: 'text', text }];
    const parts = this.#parser.push(text, isControl);
    return isControl ? parts.map((part) => (part.type === 'text' ? withoutText(part, text) : part)) : parts;
  }

  #search(parts: readonly OutputPart[]): ChoicePart[] {
    const ready: ChoicePart[] = [];
    for (const part of parts) {
      if (this.#stopSequence !== null) break;
      if (part.type === 'text') {
        const { text, match } = this.#stop.push(part.text);
        this.#addText(ready, text);
        this.#stopSequence = match;
        continue;
      }
      // A stop sequence cannot span a call.
      this.#addText(ready, this.#stop.flush());
      this.#logprobs.clear();
      if (part.type === 'call') this.#calls++;
      ready.push(part);
    }
    return ready;
  }

  #addText(parts: ChoicePart[], text: string): void {
    if (text === '') return;
    for (const part of this.#logprobs.release(text)) parts.push({ type: 'text', ...part });
  }
}

/** A part of the output. Only text has log probabilities, as with OpenAI; none if they were not passed to `push`. */
export type ChoicePart =
  | { type: 'text'; text: string; logprobs: TokenLogprob[] }
  | Exclude<OutputPart, { type: 'text' }>;

function withoutText<Part extends { text: string }>(part: Part, control: string): Part {
  return { ...part, text: part.text.replace(control, '') };
}

/** Keeps an event far smaller than the maximum of the service, `MAX_EVENT_BYTES`: each may have 20 alternatives. */
const MAX_LOGPROBS = 64;

/**
 * Log probabilities of tokens whose text is held back, because it may be the start of a call or of a stop sequence. They
 * are sent with the text, or dropped if it does not become part of the response.
 */
export class HeldLogprobs {
  #tokens: { text: string; logprob: TokenLogprob | null }[] = [];

  add(text: string, logprob: TokenLogprob): void {
    this.#tokens.push({ text, logprob });
  }

  /**
   * Returns `text` in parts, each with the log probabilities of its tokens, at most `MAX_LOGPROBS`. Skips tokens before
   * it, because their text was omitted from the response.
   */
  release(text: string): { text: string; logprobs: TokenLogprob[] }[] {
    let part = { text, logprobs: new Array<TokenLogprob>() };
    const parts = [part];
    let rest = text;
    while (rest !== '') {
      const [token] = this.#tokens;
      if (token === undefined) break;
      const isWhole = rest.startsWith(token.text);
      if (!isWhole && !token.text.startsWith(rest)) {
        token.text = token.text.slice(1);
        if (token.text === '') this.#tokens.shift();
        continue;
      }
      if (part.logprobs.length === MAX_LOGPROBS) {
        part.text = part.text.slice(0, -rest.length);
        part = { text: rest, logprobs: [] };
        parts.push(part);
      }
      const length = Math.min(token.text.length, rest.length);
      if (token.logprob !== null) part.logprobs.push(token.logprob);
      rest = rest.slice(length);
      if (isWhole) this.#tokens.shift();
      // A log probability is sent once, with the first part of its token's text.
      else this.#tokens[0] = { text: token.text.slice(length), logprob: null };
    }
    return parts;
  }

  clear(): void {
    this.#tokens = [];
  }
}
