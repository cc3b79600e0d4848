import type { Tool } from '../../../generation.ts';
import type { CallGrammar } from './call-grammar.ts';
import type { CallWriter } from './call-writer.ts';
import type { Parsing, PieceReader } from './piece-reader.ts';

/** How a family of models writes calls. */
export interface ToolFormat {
  readonly name: string;
  /** Texts that begin a call, or a list of calls, anywhere in the output. They include control tokens. */
  readonly openings: readonly string[];
  /** Further openings, only at the start of the answer. Absent: none. */
  readonly leadingOpenings?: (tools: readonly Tool[]) => readonly string[];
  /** Whether another opening can follow a call. Otherwise, there is one call, or `parse` parses a list. */
  readonly repeats: boolean;
  /**
   * Parses what an opening begins: one call, or a list of calls. Throws `MalformedCall` if the text is not a call; it then
   * becomes text, unless the arguments have begun.
   */
  readonly parse: (call: CallParsing) => Parsing<void>;
  /** Returns a GBNF expression for what `parse` parses, including the opening. */
  readonly grammar: (grammar: CallGrammar) => string;
  /** Like `grammar`, for leading openings that `grammar` does not allow. Absent: it allows all of them. */
  readonly leadingGrammar?: (grammar: CallGrammar) => string;
  /** GBNF expression for the text between a call and the next opening. */
  readonly separator: string;
  /** GBNF expression for the text before the opening if the output begins with a call. Absent: none. */
  readonly preamble?: string;
}

export interface CallParsing {
  reader: PieceReader;
  writer: CallWriter;
  /** The opening that was found. */
  opening: string;
}
