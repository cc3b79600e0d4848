import { bound, nothingMatches, refuseSchema, type SchemaObject } from './grammar-keywords.ts';
import { patternText, regularText } from './grammar-pattern.ts';
import type { GrammarRules } from './grammar-rules.ts';
import type { PatternNode } from './pattern-parser.ts';

/**
 * Strings of a `format`, of a `pattern`, or from `minLength` to `maxLength` code points; one of the three at a time.
 * Returns an expression for the first two, and the name of a rule otherwise.
 */
export function stringForm(schema: SchemaObject, path: string, rules: GrammarRules): PatternNode | string {
  const { format, pattern } = schema;
  const min = bound(schema['minLength'], `${path}.minLength`);
  const max = bound(schema['maxLength'], `${path}.maxLength`);
  const kinds = [format, pattern, min ?? max ?? undefined].filter((given) => given !== undefined);
  if (kinds.length === 0) return 'string';
  if (kinds.length > 1) {
    const message = '`format`, `pattern` and length bounds cannot be combined on one string.';
    throw refuseSchema('unsupported_parameter', path, message);
  }
  if (format !== undefined) return formatText(format, `${path}.format`);
  if (pattern !== undefined) return patternText(pattern, `${path}.pattern`);
  if (max !== null && max < (min ?? 0)) throw nothingMatches(path);
  return rules.share(String.raw`"\"" ${rules.repeat('c', min ?? 0, max)} "\""`);
}

function formatText(format: unknown, path: string): PatternNode {
  switch (format) {
    case 'date':
      return regularText(`"(?:${DATE})"`);
    case 'time':
      return regularText(`"${TIME}"`);
    case 'date-time':
      return regularText(`"(?:${DATE})T${TIME}"`);
    case 'uuid':
      return regularText('"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"');
    default:
      throw refuseSchema('unsupported_parameter', path, '`format` must be date, time, date-time or uuid.');
  }
}

/** RFC 3339 dates that exist: the 29th of February in leap years only. */
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
