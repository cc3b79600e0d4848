/** How a language writes JSON values. */
export interface Syntax {
  string: (text: string) => string;
  /** A field name including the separator, such as `"name": `. */
  key: (name: string) => string;
  constants: { readonly true: string; readonly false: string; readonly null: string };
  /** Between the braces and the fields of a single-line object. */
  padding: '' | ' ';
  /** After the last element of a multi-line list. */
  trailing: '' | ',';
  indent: number;
}

const WIDTH = 88;

/**
 * Formats a JSON value as an expression of the language, on one line if it fits. `column` is the start column, `depth`
 * the nesting level. Skips `undefined` fields, as JSON does.
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

export function fieldsOf(value: object): [string, unknown][] {
  return Object.entries(value).filter(([, inner]) => inner !== undefined);
}

/** JSON with two spaces per level. */
export const JSON_SYNTAX: Syntax = {
  string: (text) => JSON.stringify(text),
  key: (name) => `${JSON.stringify(name)}: `,
  constants: { true: 'true', false: 'false', null: 'null' },
  padding: '',
  trailing: '',
  indent: 2,
};

/** Python. JSON string escapes are valid in Python strings. */
export const PYTHON: Syntax = {
  ...JSON_SYNTAX,
  constants: { true: 'True', false: 'False', null: 'None' },
  trailing: ',',
  indent: 4,
};

/** TypeScript with single quotes and unquoted names. */
export const TYPESCRIPT: Syntax = {
  ...JSON_SYNTAX,
  string: single,
  key: (name) => {
    // A plain `__proto__` would set the prototype.
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
