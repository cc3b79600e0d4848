import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
  type Document,
  type Node,
  type Pair,
} from 'yaml';
import { ConfigError, type ConfigIssue } from './errors.ts';

interface Position {
  /** Counted from 1. */
  line: number;
  column: number;
}

/** The value of a YAML file, and the positions of its parts. */
export interface YamlFile {
  value: unknown;
  /** Returns the position of the value or key at a path, or of its nearest existing parent. */
  locate(path: readonly PropertyKey[], want?: 'value' | 'key'): Position;
}

/** Maximum number of resolved aliases. Without it, a few lines of nested aliases could exhaust the memory. */
const MAX_ALIASES = 100;

/**
 * Parses one YAML 1.2 document. Throws a `ConfigError` with all syntax errors: invalid UTF-8, duplicate keys, unknown
 * tags and aliases, more than one document, the key `__proto__`.
 */
export function parseYaml(bytes: Uint8Array, configPath: string): YamlFile {
  const lines = new LineCounter();
  const document = parseDocument(decode(bytes, configPath), {
    lineCounter: lines,
    prettyErrors: false,
    stringKeys: true,
    // `silent` would also hide the error about a second document.
    logLevel: 'error',
  });
  const positionOf = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const issues = [...document.errors, ...document.warnings].map((error) =>
    syntaxIssue(MESSAGES.get(error.code) ?? error.message, positionOf(error.pos[0])),
  );
  visit(document, {
    // Schemas ignore this name, which would be the prototype of an object.
    Pair(_, { key }) {
      if (!isScalar(key) || key.value !== '__proto__') return;
      issues.push(syntaxIssue('`__proto__` is not allowed as a name', positionOf(key.range?.[0] ?? 0)));
    },
    Alias(_, alias) {
      if (alias.resolve(document) !== undefined) return;
      const message = `there is no anchor &${alias.source} before this alias`;
      issues.push(syntaxIssue(message, positionOf(alias.range?.[0] ?? 0)));
    },
  });
  if (issues.length > 0) throw new ConfigError(configPath, issues);
  return {
    value: toValue(document, configPath),
    locate: (path, want = 'value') => positionOf(offsetOf(document, path, want)),
  };
}

/** Replacements for library messages that are written for programmers. */
const MESSAGES: ReadonlyMap<string, string> = new Map([
  ['DUPLICATE_KEY', 'duplicate key'],
  ['MULTIPLE_DOCS', 'the file must contain only one YAML document; a second one starts here'],
  ['NON_STRING_KEY', 'keys must be strings'],
]);

function syntaxIssue(message: string, at: Position | null): ConfigIssue {
  return { path: '', line: at?.line ?? null, column: at?.column ?? null, expected: 'valid YAML', message };
}

function decode(bytes: Uint8Array, configPath: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new ConfigError(configPath, [syntaxIssue('the file is not valid UTF-8', null)]);
  }
}

function toValue(document: Document, configPath: string): unknown {
  try {
    return document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    const message = `aliases expand to more than ${MAX_ALIASES} values`;
    throw new ConfigError(configPath, [syntaxIssue(message, null)]);
  }
}

function offsetOf(document: Document, path: readonly PropertyKey[], want: 'value' | 'key'): number {
  let node: Node | null | undefined = document.contents;
  let offset = node?.range?.[0] ?? 0;
  for (const [depth, segment] of path.entries()) {
    if (isAlias(node)) node = node.resolve(document);
    if (isSeq<Node>(node)) {
      node = node.items[Number(segment)];
    } else if (isMap<Node, Node>(node)) {
      const pair: Pair<Node, Node> | undefined = node.items.find(
        ({ key }) => isScalar(key) && String(key.value) === String(segment),
      );
      const last = depth === path.length - 1;
      if (pair !== undefined) offset = pair.key.range?.[0] ?? offset;
      if (last && want === 'key') return offset;
      node = pair?.value;
    } else {
      return offset;
    }
    offset = node?.range?.[0] ?? offset;
  }
  return offset;
}
