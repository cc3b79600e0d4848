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
