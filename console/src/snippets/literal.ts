/** How a language writes what JSON can say. */
export interface Syntax {
  string: (text: string) => string;
  /** The name of a field with what parts it from its value, such as `"name": `. */
  key: (name: string) => string;
  constants: { readonly true: string; readonly false: string; readonly null: string };
  /** Between an object's braces and its fields where it stands on one line. */
  padding: '' | ' ';
  /** After the last element where each stands on a line of its own. */
  trailing: '' | ',';
  /** Of one level, in spaces. */
  indent: number;
}

/** A line longer than this is broken where it can be. */
const WIDTH = 88;

/**
 * A value of JSON as an expression of the language, on one line where it fits, else over several. `column` is where
 * it begins, and `depth` how many levels in its lines are. What is `undefined` is left out, as JSON leaves it out.
 */
export function literal(value: unknown, syntax: Syntax, depth = 0, column = 0): string {
  if (typeof value === 'string') return syntax.string(value);
  if (typeof value === 'boolean') return syntax.constants[`${value}`];
  if (typeof value !== 'object' || value === null) {
    return typeof value === 'number' && Number.isFinite(value) ? String(value) : syntax.constants.null;
  }
  const entries = entriesOf(value, syntax);
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  if (entries.length === 0) return `${open}${close}`;
  const padding = Array.isArray(value) ? '' : syntax.padding;
  const inline = entries.map(([key, inner]) => key + literal(inner, syntax, 0, -Infinity)).join(', ');
  const line = `${open}${padding}${inline}${padding}${close}`;
  if (column + line.length <= WIDTH) return line;
  const indent = ' '.repeat(syntax.indent * (depth + 1));
  const lines = entries.map(
    ([key, inner]) => `${indent}${key}${literal(inner, syntax, depth + 1, indent.length + key.length + 1)}`,
  );
  return `${open}\n${lines.join(',\n')}${syntax.trailing}\n${' '.repeat(syntax.indent * depth)}${close}`;
}

function entriesOf(value: object, syntax: Syntax): readonly [string, unknown][] {
  if (Array.isArray(value)) return value.map((element) => ['', element]);
  return fieldsOf(value).map(([name, inner]) => [syntax.key(name), inner]);
}

/** The fields of an object that JSON would have. */
export function fieldsOf(value: object): [string, unknown][] {
  return Object.entries(value).filter(([, inner]) => inner !== undefined);
}

/** JSON, two spaces a level, as people write it by hand. */
export const JSON_SYNTAX: Syntax = {
  string: (text) => JSON.stringify(text),
  key: (name) => `${JSON.stringify(name)}: `,
  constants: { true: 'true', false: 'false', null: 'null' },
  padding: '',
  trailing: '',
  indent: 2,
};

/** Python: every escape of JSON is one of its strings too, and means the same. */
export const PYTHON: Syntax = {
  ...JSON_SYNTAX,
  constants: { true: 'True', false: 'False', null: 'None' },
  trailing: ',',
  indent: 4,
};

/** TypeScript, as it is most often formatted: single quotes, names bare where they may be. */
export const TYPESCRIPT: Syntax = {
  ...JSON_SYNTAX,
  string: single,
  key: (name) => {
    // As a plain name it would set the prototype and no field.
    if (name === '__proto__') return `['__proto__']: `;
    return `${/^[A-Za-z_$][\w$]*$/.test(name) ? name : single(name)}: `;
  },
  padding: ' ',
  trailing: ',',
};

function single(text: string): string {
  const inner = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"');
  return inner.includes("'") && !inner.includes('"') ? `"${inner}"` : `'${inner.replaceAll("'", "\\'")}'`;
}
