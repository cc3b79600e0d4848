import { CallGrammar, type CallGrammarOptions } from './call-grammar.ts';
import type { ToolFormat } from './tool-format.ts';

/**
 * Adds the rules for what one opening of the format begins, including the opening: a call, or a list of calls. Returns the
 * name of the rule. A constraint that begins when the opening was generated must first accept `OutputParser.callText`.
 */
export function callRule(format: ToolFormat, options: CallGrammarOptions): string {
  return options.rules.share(format.grammar(new CallGrammar(options)));
}

/** Adds the rules for an output that consists of one or more calls. Returns the name of the rule. */
export function callsRule(format: ToolFormat, options: CallGrammarOptions): string {
  const call = callRule(format, options);
  const more = options.parallel && format.repeats ? `(${format.separator} ${call})*` : '';
  return options.rules.share(`${format.preamble ?? ''} ${call} ${more}`.trim());
}
