import { type Environment, Interpreter } from '@huggingface/jinja';

/** Thrown by a template with `raise_exception`, and if rendering takes too long. */
export class TemplateRefusal extends Error {}

/** Limits the work of rendering one request, because rendering cannot be interrupted. */
export class RenderingWork {
  #left: number;

  /** `limit`: the number of expressions and statements. */
  constructor(limit = MAX_WORK) {
    this.#left = limit;
  }

  get isExceeded(): boolean {
    return this.#left < 0;
  }

  /** Runs a parsed template. Throws `TemplateRefusal` if the work exceeds the limit. */
  run(program: object, environment: Environment): string {
    const interpreter = new Interpreter(environment) as EvaluatingInterpreter;
    const evaluate = interpreter.evaluate.bind(interpreter);
    interpreter.evaluate = (node, scope) => {
      if (--this.#left < 0) throw new TemplateRefusal('There are too many messages or tools to render.');
      return evaluate(node, scope);
    };
    // Running a template returns a string.
    return interpreter.run(program).value as string;
  }
}

/** The interpreter evaluates nested expressions and statements with its own method `evaluate`. */
interface EvaluatingInterpreter {
  evaluate(node: unknown, environment: unknown): unknown;
  run(program: object): { value: unknown };
}

/**
 * Maximum number of expressions and statements to evaluate, of about 0.2 µs each. Some templates search all messages for
 * each message: that of gpt-oss needs this many for about 700 calls.
 */
const MAX_WORK = 5_000_000;

/**
 * Returns the variables and functions that Hugging Face's renderer provides to templates. Unless `isStrict`, templates
 * cannot refuse turns because their roles do not alternate: those of Mistral refuse a message of the user after a tool
 * result, but render it.
 */
export function rendererNames(now: () => Date, isStrict: boolean): Record<string, unknown> {
  return {
    ...CONSTANTS,
    raise_exception: (message: unknown) => {
      if (!isStrict && String(message).includes('must alternate')) return '';
      throw new TemplateRefusal(String(message));
    },
    range: pythonRange,
    strftime_now: (format: string) => strftime(now(), format),
  };
}

/** Returns the date in the form of Firefunction's variable `datetime`. */
export function dateOf(date: Date): string {
  return strftime(date, '%b %d %Y');
}

const CONSTANTS = { true: true, false: false, none: null, True: true, False: false, None: null };

function pythonRange(first: number, second?: number, step = 1): number[] {
  const [start, end] = second === undefined ? [0, first] : [first, second];
  const numbers: number[] = [];
  if (step > 0) for (let value = start; value < end; value += step) numbers.push(value);
  if (step < 0) for (let value = start; value > end; value += step) numbers.push(value);
  return numbers;
}

/** Python's `strftime` in English, for the directives that templates use. */
function strftime(date: Date, format: string): string {
  return format.replace(/%[a-zA-Z%]/g, (directive) => DIRECTIVES[directive]?.(date) ?? directive);
}

const DIRECTIVES: Readonly<Record<string, (date: Date) => string>> = {
  '%Y': (date) => String(date.getFullYear()),
  '%y': (date) => String(date.getFullYear() % 100).padStart(2, '0'),
  '%m': (date) => String(date.getMonth() + 1).padStart(2, '0'),
  '%d': (date) => String(date.getDate()).padStart(2, '0'),
  '%B': (date) => date.toLocaleString('en-US', { month: 'long' }),
  '%b': (date) => date.toLocaleString('en-US', { month: 'short' }),
  '%A': (date) => date.toLocaleString('en-US', { weekday: 'long' }),
  '%a': (date) => date.toLocaleString('en-US', { weekday: 'short' }),
  '%H': (date) => String(date.getHours()).padStart(2, '0'),
  '%M': (date) => String(date.getMinutes()).padStart(2, '0'),
  '%S': (date) => String(date.getSeconds()).padStart(2, '0'),
  '%%': () => '%',
};

/** The relevant fields of a node of a parsed template. */
interface SyntaxNode {
  type?: string;
  value?: unknown;
  object?: SyntaxNode;
  property?: SyntaxNode;
  callee?: SyntaxNode;
  args?: readonly SyntaxNode[];
  assignee?: SyntaxNode;
  operand?: SyntaxNode;
  filter?: SyntaxNode;
}

/**
 * Rewrites syntax of Jinja that the renderer does not support, in place: `'a{}b'.format(x)` becomes `'a' ~ x ~ 'b'`,
 * and a dictionary whose keys are integers becomes the sorted list of its pairs, which is what its uses need
 * (`dictsort`, and lookup of a constant key).
 */
export function rewriteSyntax(program: object): void {
  const tables = new Map<unknown, SyntaxNode>();
  const rewritten = (node: SyntaxNode): SyntaxNode => {
    if (node.type === 'Set' && isIntegerTable(node.value)) {
      const table = sortedPairs(node.value);
      tables.set(node.assignee?.value, table);
      return { ...node, value: table };
    }
    return formatted(node) ?? lookedUp(node, tables) ?? node;
  };
  const visit = (node: unknown): unknown => {
    if (typeof node !== 'object' || node === null || node instanceof Map) return node;
    const replaced = Array.isArray(node) ? node : rewritten(node);
    for (const [key, child] of Object.entries(replaced)) Object.assign(replaced, { [key]: visit(child) });
    return replaced;
  };
  visit(program);
}

/** Returns the concatenation for a call of `format` on a literal, or null for any other node. */
function formatted({ type, callee, args = [] }: SyntaxNode): SyntaxNode | null {
  const { object, property } = callee ?? {};
  if (type !== 'CallExpression' || object?.type !== 'StringLiteral' || property?.value !== 'format')
    return null;
  const [first, ...others] = String(object.value).split('{}').map(stringLiteral);
  if (first === undefined || others.length !== args.length) return null;
  return others.reduce((left, part, index) => {
    return concatenation(concatenation(left, args[index] ?? part), part);
  }, first);
}

type IntegerTable = SyntaxNode & { value: ReadonlyMap<{ value: number }, SyntaxNode> };

function isIntegerTable(node: unknown): node is IntegerTable {
  const { type, value } = (node ?? {}) as SyntaxNode;
  if (type !== 'ObjectLiteral' || !(value instanceof Map) || value.size === 0) return false;
  return [...value.keys()].every((key: SyntaxNode) => key.type === 'IntegerLiteral');
}

function sortedPairs({ value }: IntegerTable): SyntaxNode {
  const pairs = [...value].sort(([a], [b]) => a.value - b.value);
  return { type: 'ArrayLiteral', value: pairs.map((pair) => ({ type: 'ArrayLiteral', value: pair })) };
}

/** Returns the node for a use of a table, or null for any other node. */
function lookedUp(
  { type, object, property, operand, filter }: SyntaxNode,
  tables: ReadonlyMap<unknown, SyntaxNode>,
): SyntaxNode | null {
  if (type === 'FilterExpression' && filter?.value === 'dictsort' && operand?.type === 'Identifier')
    return tables.has(operand.value) ? operand : null;
  if (type !== 'MemberExpression' || property?.type !== 'IntegerLiteral') return null;
  const pairs = (tables.get(object?.value)?.value ?? []) as readonly { value: [SyntaxNode, SyntaxNode] }[];
  return pairs.find(({ value: [key] }) => key.value === property.value)?.value[1] ?? null;
}

function stringLiteral(value: string): SyntaxNode {
  return { type: 'StringLiteral', value };
}

function concatenation(left: SyntaxNode, right: SyntaxNode): SyntaxNode {
  return { type: 'BinaryExpression', operator: { value: '~' }, left, right } as SyntaxNode;
}
