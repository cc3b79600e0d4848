import type { Tool } from '../../../core/generation.ts';
import type { CallGrammar } from './call-grammar.ts';
import { type Parsing, PieceReader } from './piece-reader.ts';
import { CallWriter } from './call-writer.ts';

/** How a family of models writes calls. */
export interface ToolFormat {
  readonly name: string;
  /** Texts that begin a call, or a list of calls, anywhere in the answer. They can include control tokens. */
  readonly openings: readonly string[];
  /**
   * Where `openings` are recognized: `anywhere`, because answers seldom contain such texts. `apart`: not directly after a
   * letter, a digit or a quotation mark, because the openings are ordinary text that code contains. `header`: only in the
   * headers of messages in channels.
   */
  readonly place: 'anywhere' | 'apart' | 'header';
  /** Additional openings, which are recognized only at the start of the answer. */
  readonly leadingOpenings?: (tools: readonly Tool[]) => readonly string[];
  /**
   * Whether another opening can follow a call. Otherwise, the output has one call, or one list of calls that `parse`
   * parses.
   */
  readonly repeats: boolean;
  /**
   * Parses the call, or the list of calls, after an opening. Accepts the name of each call as soon as the text can only
   * be a call. Throws `MalformedCall` if the output is not a call, or ends inside of it.
   */
  readonly parse: (call: CallParsing) => Parsing<void>;
  /** Returns a GBNF expression for what `parse` parses, including the opening. */
  readonly grammar: (grammar: CallGrammar) => string;
  /** Like `grammar`, for leading openings that `grammar` does not allow. Absent if `grammar` allows all of them. */
  readonly leadingGrammar?: (grammar: CallGrammar) => string;
  /** GBNF expression for the text between a call and the next opening. */
  readonly separator: string;
  /** GBNF expression for the text before the first call if a grammar constrains the whole output. Absent: none. */
  readonly preamble?: string;
}

export interface CallParsing {
  reader: PieceReader;
  writer: CallWriter;
  /** The opening that was found. */
  opening: string;
  /** Throws `MalformedCall` if no tool with this name is offered. */
  readonly check: (name: string) => void;
  /** Calls `check`. From the first accepted name on, the output is a call, and a grammar constrains the rest of it. */
  readonly accept: (name: string) => void;
}
