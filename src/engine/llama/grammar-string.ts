import { schemaError, type SchemaObject } from './grammar-keywords.ts';
import { patternNode, regexNode } from './grammar-pattern.ts';
import type { GrammarRules } from './grammar-rules.ts';
import type { PatternNode } from './pattern-parser.ts';

/**
 * Returns an expression if the schema has a `format` or `pattern`, otherwise the name of a rule. `raw`: the string is
 * written without quotes and escapes, and without `<`, so that it cannot contain a tag.
 */
export function stringForm(
  schema: SchemaObject,
  path: string,
  rules: GrammarRules,
  raw = false,
): PatternNode | string {
  const { format, pattern } = schema;
  const { minLength, maxLength } = schema as { minLength?: number; maxLength?: number };
  const kinds = [format, pattern, minLength ?? maxLength].filter((kind) => kind !== undefined);
  if (kinds.length === 0) return 'string';
  if (kinds.length > 1) {
    const message = '`format`, `pattern` and length bounds cannot be combined on one string.';
    throw schemaError('unsupported_parameter', path, message);
  }
  if (format !== undefined) return formatNode(format, `${path}.format`, raw ? '' : '"');
  if (pattern !== undefined) return patternNode(pattern as string, `${path}.pattern`, raw);
  if (raw) return rules.share(`"" ${rules.repeat(rules.share('[^<]'), minLength ?? 0, maxLength ?? null)}`);
  return rules.share(String.raw`"\"" ${rules.repeat('c', minLength ?? 0, maxLength ?? null)} "\""`);
}

function formatNode(format: unknown, path: string, quote: string): PatternNode {
  switch (format) {
    case 'date':
      return regexNode(`${quote}(?:${DATE})${quote}`);
    case 'time':
      return regexNode(`${quote}${TIME}${quote}`);
    case 'date-time':
      return regexNode(`${quote}(?:${DATE})T${TIME}${quote}`);
    case 'uuid':
      return regexNode(`${quote}[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}${quote}`);
    default:
      throw schemaError('unsupported_parameter', path, '`format` must be date, time, date-time or uuid.');
  }
}

/** RFC 3339 dates, with February 29 only in leap years. */
const DATE = [
  '[0-9]{4}-(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])',
  '[0-9]{4}-(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)',
  '[0-9]{4}-02-(?:0[1-9]|1[0-9]|2[0-8])',
  '[0-9]{2}(?:0[48]|[2468][048]|[13579][26])-02-29',
  '(?:[02468][048]|[13579][26])00-02-29',
].join('|');

/** RFC 3339 times, without leap seconds. */
const TIME =
  '(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])';
