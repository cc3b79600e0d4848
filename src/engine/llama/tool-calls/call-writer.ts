import type { Tool } from '../../../core/generation.ts';
import { ArgumentTypes, type ValueTypes } from './argument-types.ts';
import { PieceReader } from './piece-reader.ts';

/** A part of the output of a model. `arguments` belong to the last `call`; joined, they are a JSON object. */
export type OutputPart =
  | { type: 'text'; text: string }
  | { type: 'reasoning'; text: string }
  | { type: 'arguments'; text: string }
  | { type: 'call'; name: string };

/** Maximum white space that is held back, in UTF-16 code units. */
const MAX_SPACE = 256;

/**
 * Collects the parts of an output and joins adjacent ones. Omits white space at both ends of the reasoning, at the start
 * of the text that follows it, before and between calls, and between the last call and the end.
 */
export class PartCollector {
  #parts: OutputPart[] = [];
  #last: OutputPart['type'] | null = null;
  /** White space at the end of the text or reasoning so far, which may be omitted. */
  #space = '';
  /** Whether white space at the start of the next text or reasoning is omitted. */
  #trimsStart = false;

  /** Returns the parts that were collected since the last `take`. */
  take(): OutputPart[] {
    const parts = this.#parts;
    this.#parts = [];
    return parts;
  }

  text(text: string): void {
    this.#spaced('text', text);
  }

  reasoning(text: string): void {
    this.#spaced('reasoning', text);
  }

  /** Called at the start and at the end of the reasoning. */
  reasoningMark(): void {
    this.#space = '';
    this.#trimsStart = true;
  }

  call(name: string): void {
    this.#space = '';
    this.#trimsStart = false;
    this.#last = 'call';
    this.#parts.push({ type: 'call', name });
  }

  arguments(text: string): void {
    this.#add('arguments', text);
  }

  end(): void {
    if (this.#last === 'text' || this.#last === null) this.#add('text', this.#space);
    this.#space = '';
  }

  #spaced(type: 'text' | 'reasoning', text: string): void {
    const whole = this.#space + (this.#trimsStart ? text.trimStart() : text);
    if (whole !== '') this.#trimsStart = false;
    const trimmed = whole.trimEnd();
    const keep = whole.length - trimmed.length > MAX_SPACE ? whole.length : trimmed.length;
    this.#space = whole.slice(keep);
    this.#add(type, whole.slice(0, keep));
  }

  #add(type: 'text' | 'reasoning' | 'arguments', text: string): void {
    if (text === '') return;
    this.#last = type;
    const last = this.#parts.at(-1);
    if (last !== undefined && last.type !== 'call' && last.type === type) last.text += text;
    else this.#parts.push({ type, text });
  }
}

/** Receives the calls of a parser. */
export class CallWriter {
  /** Calls that have ended. */
  completed = 0;
  readonly #parts: PartCollector;
  readonly #reader: PieceReader;
  readonly #types: ArgumentTypes;
  #name: string | null = null;
  #members = 0;

  constructor(parts: PartCollector, reader: PieceReader, tools: readonly Tool[]) {
    this.#parts = parts;
    this.#reader = reader;
    this.#types = new ArgumentTypes(tools);
  }

  /** Whether a call has begun and not ended. */
  get isOpen(): boolean {
    return this.#name !== null;
  }

  /**
   * Starts a call. From here on, the text read so far is not returned as text, even if the call turns out to be
   * malformed.
   */
  begin(name: string): void {
    this.#reader.unmark();
    this.#name = name;
    this.#members = 0;
    this.#parts.call(name);
  }

  /** Adds JSON text to the arguments. */
  json(text: string): void {
    this.#parts.arguments(text);
  }

  /** Adds a member to the arguments. Its value must follow. */
  key(name: string): void {
    this.json(`${this.#members === 0 ? '{' : ', '}${JSON.stringify(name)}: `);
    this.#members += 1;
  }

  /** Whether the schema of a tool lists an argument. */
  hasArgument(tool: string, argument: string): boolean {
    return this.#types.has(tool, argument);
  }

  /** Returns the types of an argument of the current call, by the tool's schema. */
  typesOf(argument: string): ValueTypes {
    return this.#types.of(this.#name ?? '', argument);
  }

  /** Ends arguments that were added with `key`. */
  closeArguments(): void {
    this.json(this.#members === 0 ? '{}' : '}');
  }

  /** Ends the call. The output after it is returned as text unless it is another call. */
  end(): void {
    this.#name = null;
    this.completed += 1;
    this.#reader.mark();
  }

  /** Ends the call if it is open. The call can be complete, malformed or cut off. */
  abandon(): void {
    if (this.isOpen) this.end();
  }
}
