import bash from 'highlight.js/lib/languages/bash';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import java from 'highlight.js/lib/languages/java';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { createLowlight } from 'lowlight';

const lowlight = createLowlight({
  bash,
  cpp,
  csharp,
  css,
  diff,
  go,
  java,
  json,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
});
// Languages also have the aliases of highlight.js, such as `c++` and `html`.
lowlight.registerAlias({
  bash: ['sh', 'shell', 'curl'],
  cpp: ['c', 'h'],
  python: ['py'],
  typescript: ['ts', 'js', 'javascript', 'jsx', 'tsx'],
});

/** A piece of code; `kind` is a class of highlight.js such as `string`, or null for plain text. */
export interface CodePiece {
  text: string;
  kind: string | null;
}

type Tree = ReturnType<typeof lowlight.highlight>['children'];

/** Splits code into pieces of one kind each. Returns one plain piece for unknown languages. */
export function highlight(code: string, language: string): CodePiece[] {
  const name = language.toLowerCase();
  if (!lowlight.registered(name)) return [{ text: code, kind: null }];
  return piecesOf(lowlight.highlight(name, code).children, null);
}

function piecesOf(nodes: Tree, kind: string | null): CodePiece[] {
  return nodes.flatMap((node): CodePiece[] => {
    if (node.type === 'text') return [{ text: node.value, kind }];
    if (node.type !== 'element') return [];
    const [first] = Array.isArray(node.properties['className']) ? node.properties['className'] : [];
    const own = typeof first === 'string' ? first.replace(/^hljs-/, '').replace(/_$/, '') : kind;
    return piecesOf(node.children, own);
  });
}
