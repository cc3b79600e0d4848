import type { Tool } from '../../../generation.ts';
import { ArgumentTypes, type ValueTypes } from './argument-types.ts';
import type { PartCollector } from './part-collector.ts';
import type { PieceReader } from './piece-reader.ts';

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
