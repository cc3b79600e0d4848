import { asString, unsupported, wrongValue } from './values.ts';

/**
 * Checks the `$ref` of a schema at `path`: it must refer to the root or an entry of the root's `$defs` or `definitions`,
 * without a cycle of references and alternatives that generates no text. Throws `unsupported_parameter` or
 * `invalid_value`.
 */
export function checkReference(node: object, path: string, root: unknown): void {
  const visited = new Set<unknown>();
  const pending: unknown[] = [node];
  while (pending.length > 0) {
    const current = pending.pop();
    if (visited.has(current) && current === node)
      throw wrongValue(`${path}.$ref`, 'a reference without a cycle');
    if (visited.has(current) || typeof current !== 'object' || current === null) continue;
    visited.add(current);
    if ('$ref' in current) pending.push(resolveReference(current.$ref, `${path}.$ref`, root));
    for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
      const members = child(current, keyword);
      if (Array.isArray(members)) pending.push(...(members as unknown[]));
    }
  }
}

const LOCAL = /^#\/(\$defs|definitions)\/([^/]+)$/;

/** Returns the schema that a reference refers to. */
function resolveReference(reference: unknown, path: string, root: unknown): unknown {
  const text = asString(reference, path);
  if (text === '#') return root;
  const [, group, escaped] = LOCAL.exec(text) ?? [];
  if (group === undefined || escaped === undefined) {
    throw unsupported(path, 'must be `#`, `#/$defs/<name>` or `#/definitions/<name>`');
  }
  // RFC 6901: "~1" is "/", then "~0" is "~".
  const name = escaped.replaceAll('~1', '/').replaceAll('~0', '~');
  const definitions = child(root, group);
  const target = child(definitions, name);
  if (target === undefined) throw wrongValue(path, 'a reference to an existing schema');
  return target;
}

function child(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, name)?.value;
}
