import type { Tool } from '../../../generation.ts';
import type { CallGrammar } from './call-grammar.ts';
import type { CallWriter } from './call-writer.ts';
import type { Parsing, PieceReader } from './piece-reader.ts';

/** How a family of models writes calls. */
export interface ToolFormat {
  readonly name: string;
  /** Texts that begin a call, or a list of calls, anywhere in the output. They can include control tokens. */
  readonly openings: readonly string[];
  /** Additional openings, which are recognized only at the start of the answer. */
  readonly leadingOpenings?: (tools: readonly Tool[]) => readonly string[];
  /**
   * Whether another opening can follow a call. Otherwise, the output has one call, or one list of calls that `parse`
   * parses.
   */
  readonly repeats: boolean;
  /**
   * Parses the call, or the list of calls, after an opening. Throws `MalformedCall` if the output is not a call. The
   * output then becomes text, unless the arguments have begun.
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
}
