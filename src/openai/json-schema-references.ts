import { asString, unsupported, wrongValue } from './values.ts';

/**
 * Checks the `$ref` of a schema within `root`: it points to the root or to an entry of the root's `$defs` or
 * `definitions`, and following references and alternatives does not come back to it before any text is written.
 * Throws `unsupported_parameter` or `invalid_value`; `path` is the schema's.
 */
export function checkReference(node: object, path: string, root: unknown): void {
  const reached = new Set<unknown>();
  const open: unknown[] = [node];
  while (open.length > 0) {
    const current = open.pop();
    if (reached.has(current) && current === node)
      throw wrongValue(`${path}.$ref`, 'a reference without a cycle');
    if (reached.has(current) || typeof current !== 'object' || current === null) continue;
    reached.add(current);
    if ('$ref' in current) open.push(resolveReference(current.$ref, `${path}.$ref`, root));
    for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
      const members = child(current, keyword);
      if (Array.isArray(members)) open.push(...(members as unknown[]));
    }
  }
}

const LOCAL = /^#\/(\$defs|definitions)\/([^/]+)$/;

/** The schema that a reference of the supported forms points to. */
function resolveReference(reference: unknown, path: string, root: unknown): unknown {
  const text = asString(reference, path);
  if (text === '#') return root;
  const [, group, escaped] = LOCAL.exec(text) ?? [];
  if (group === undefined || escaped === undefined) {
    throw unsupported(path, 'must be `#`, `#/$defs/<name>` or `#/definitions/<name>`');
  }
  // RFC 6901: "~1" stands for "/", then "~0" for "~".
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
