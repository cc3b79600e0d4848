/** Markdown of responses: what is shown, what is only text, and hostile input. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import {
  headingLevels,
  MarkdownReader,
  readMarkdown,
  type Block,
  type Inline,
} from '../../console/src/pages/playground/markdown.ts';

/** Returns the text of blocks without their formatting. */
function textOf(blocks: readonly Block[]): string {
  return blocks
    .map((block) => {
      switch (block.kind) {
        case 'paragraph':
        case 'heading':
          return inlineText(block.children);
        case 'code':
        case 'math':
          return block.text;
        case 'quote':
          return textOf(block.blocks);
        case 'list':
          return block.items.map(({ blocks: inner }) => textOf(inner)).join('\n');
        case 'table':
          return [block.header, ...block.rows].map((row) => row.map(inlineText).join('|')).join('\n');
        case 'rule':
          return '---';
      }
    })
    .join('\n');
}

function inlineText(parts: readonly Inline[]): string {
  return parts
    .map((part) => {
      if (part.kind === 'break') return '\n';
      return 'text' in part ? part.text : inlineText(part.children);
    })
    .join('');
}

function linksOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(linksOf);
  if (typeof value !== 'object' || value === null) return [];
  const own = 'href' in value ? [String(value.href)] : [];
  return [...own, ...Object.values(value).flatMap(linksOf)];
}

function only(text: string): Block {
  const [block, ...others] = readMarkdown(text);
  assert.ok(block);
  assert.deepEqual(others, []);
  return block;
}

function inlines(text: string): readonly Inline[] {
  const block = only(text);
  assert.equal(block.kind, 'paragraph');
  return block.kind === 'paragraph' ? block.children : [];
}

const text = (value: string): Inline => ({ kind: 'text', text: value });

test('headings, rules, emphasis, code spans and line breaks', () => {
  const [heading, rule] = readMarkdown('### A *title*\n\n---');
  assert.deepEqual(heading, {
    kind: 'heading',
    raw: '### A *title*',
    depth: 3,
    children: [text('A '), { kind: 'emphasis', children: [text('title')] }],
  });
  assert.equal(rule?.kind, 'rule');
  assert.deepEqual(inlines('**bold** and ~~gone~~\n`a<b>` &lt;c&gt; \\*d\\*'), [
    { kind: 'strong', children: [text('bold')] },
    text(' and '),
    { kind: 'strike', children: [text('gone')] },
    { kind: 'break' },
    { kind: 'code', text: 'a<b>' },
    text(' <c> *d*'),
  ]);
});

test('the levels of headings start at 2 and grow by one', () => {
  const blocks = readMarkdown('### a\n\n##### b\n\n###### c\n\n#### d\n\n# e\n\n## f');
  assert.deepEqual([...headingLevels(blocks).values()], [2, 3, 4, 3, 2, 3]);
});

test('nested, ordered and task lists', () => {
  const list = only('3. three\n   - [x] done\n   - [ ] open\n4. four');
  assert.ok(list.kind === 'list');
  assert.equal(list.start, 3);
  assert.equal(list.items.length, 2);
  const inner = list.items[0]?.blocks[1];
  assert.ok(inner?.kind === 'list');
  assert.equal(inner.start, null);
  assert.deepEqual(
    inner.items.map(({ checked }) => checked),
    [true, false],
  );
  assert.equal(textOf([inner]), 'done\nopen');
});

test('tables with alignment and line breaks in cells', () => {
  const table = only('| a | b |\n|:-:|--:|\n| one<br>two | **3** |');
  assert.ok(table.kind === 'table');
  assert.deepEqual(table.align, ['center', 'right']);
  assert.deepEqual(table.rows, [
    [[text('one'), { kind: 'break' }, text('two')], [{ kind: 'strong', children: [text('3')] }]],
  ]);
});

test('code blocks keep their text and name their language, also without the closing fence', () => {
  const code = (source: string) =>
    readMarkdown(source).map((block) => (block.kind === 'code' ? [block.language, block.text] : block.kind));
  assert.deepEqual(code('Look:\n```ts twoslash\nconst a = `b`;\n\n```\nDone.'), [
    'paragraph',
    ['ts', 'const a = `b`;\n\n'],
    'paragraph',
  ]);
  assert.deepEqual(code('~~~\n```\n~~~~'), [['', '```']]);
  assert.deepEqual(code('```py\nprint('), [['py', 'print(']]);
  assert.deepEqual(code('- a\n  ```py\n  x'), ['list']);
});

test('formulas are text: their underscores and stars are not emphasis, and their lines are not lists', () => {
  for (const formula of [
    '$a_1 + b_1$',
    String.raw`\(x_i * y_i * z\)`,
    '$$a_1\n- b_1\n= c$$',
    '\\[\n- a_1\n\\]',
  ]) {
    assert.equal(textOf(readMarkdown(formula)), formula);
  }
  assert.equal(textOf(readMarkdown('_so $a_b$ is_ *x*')), 'so $a_b$ is x');
  assert.equal(only('$$\na\n$$').kind, 'math');
  assert.equal(textOf(readMarkdown('costs $5 and *not* $6')), 'costs $5 and not $6');
});

test('HTML is text, and images are links', () => {
  const html = '<img src=x onerror=alert(1)> <script>alert(1)</script>';
  assert.equal(textOf(readMarkdown(html)), html);
  assert.equal(textOf(readMarkdown(`<div>\n${html}\n</div>`)), `<div>\n${html}\n</div>`);
  assert.deepEqual(inlines('![chart](https://example.com/a.png)'), [
    { kind: 'link', href: 'https://example.com/a.png', children: [text('chart')] },
  ]);
});

test('only web and mail addresses are links; others are shown as their source', () => {
  for (const source of [
    '[a](javascript:alert(1))',
    '[a](JAVASCRIPT:alert(1))',
    '[a](&#106;avascript:alert(1))',
    '[a](data:text/html,x)',
    '![a](data:image/svg+xml,x)',
    '[a](vbscript:x)',
    '[a](file:///etc/passwd)',
    '[a](/keys)',
    '[a](//example.com)',
    '<javascript:alert(1)>',
  ]) {
    assert.deepEqual(linksOf(readMarkdown(source)), [], source);
    assert.equal(textOf(readMarkdown(source)), source);
  }
  assert.deepEqual(
    linksOf(
      readMarkdown('https://example.com/a_b_c, <mailto:a@example.com>, [b][c]\n\n[c]: http://d.example'),
    ),
    ['https://example.com/a_b_c', 'mailto:a@example.com', 'http://d.example/'],
  );
});

test('a single tilde is text, and means "about" as in models of Chinese', () => {
  for (const source of ['about ~2000 lines and ~5000 lines', '大约~12万和~510万', 'takes ~3~5 minutes']) {
    assert.deepEqual(inlines(source), [text(source)]);
  }
});

test('punctuation of Chinese and Japanese ends an address', () => {
  for (const end of ['，然后继续', '（中文说明）', '。谢谢', '、', '」']) {
    const [link, rest] = inlines(`https://example.com/docs${end}`);
    assert.deepEqual(linksOf(link), ['https://example.com/docs']);
    assert.deepEqual(rest, text(end));
  }
  assert.deepEqual(linksOf(inlines('https://example.com/中文')), ['https://example.com/%E4%B8%AD%E6%96%87']);
});

test('a line like a definition of a link is shown unless it has an address', () => {
  for (const source of ['[INFO]: started', '[Alice]: hello\n[Bob]: hi', 'Log:\n\n[1]: done'])
    assert.equal(textOf(readMarkdown(source)), source.replace('\n\n', '\n'));
});

const PIECES = [
  'a',
  ' ',
  '\n',
  '\n\n',
  '*',
  '_',
  '`',
  '```',
  '- ',
  '1. ',
  '> ',
  '#',
  '# ',
  '|',
  '|-|',
  '$',
  '$$',
  '[',
  ']',
  '(',
  ')',
  '!',
  '<',
  '<br>',
  '\\',
  '\\[',
  '\\]',
  '&lt;',
  '~~',
  '~',
  ']: ',
  '    ',
  '---',
  '=',
  'https://a.b',
  'javascript:',
];

test('text that arrives in pieces is read like the complete text, and only the last two blocks change', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...PIECES), { maxLength: 60 }), (pieces) => {
      const reader = new MarkdownReader();
      let grown = '';
      for (const piece of pieces) reader.read((grown += piece));
      assert.deepEqual(reader.read(grown), readMarkdown(grown));
      for (const href of linksOf(reader.read(grown))) assert.match(href, /^(?:https?:|mailto:)/);
    }),
    // Later text merges three blocks.
    { numRuns: 1000, examples: [[['a', '\n', '1. ', '\n', '|-|', 'a']]] },
  );
  const reader = new MarkdownReader();
  const before = reader.read('# one\n\ntwo\n\nthree');
  const after = reader.read('# one\n\ntwo\n\nthree and more');
  assert.equal(after[0], before[0]);
  assert.notEqual(after[2], before[2]);
  assert.equal(textOf(reader.read('other')), 'other');
});

test('hostile input is read completely, without a deep tree', () => {
  const lines = (line: (index: number) => string, count: number) =>
    Array.from({ length: count }, (_, index) => line(index)).join('\n');
  for (const source of [
    ...[
      '>',
      '> ',
      '* ',
      '- ',
      '1. ',
      '[',
      '![',
      '[a](',
      '*a **b ',
      '_a ',
      '~a ',
      '`',
      '$',
      '$a ',
      '\\(',
      '<a ',
      '|',
      '#',
      '&',
      ' ',
      '\t',
      '\n',
      '\r',
    ].map((piece) => piece.repeat(10_000)),
    'a'.repeat(1_000_000),
    '> - a\nb\n'.repeat(10_000),
    '[a]: '.repeat(10_000),
    '$$\n'.repeat(10_000),
    '\\[\n'.repeat(10_000),
    lines((index) => `${' '.repeat(index)}- a`, 300),
    lines((index) => `${'>'.repeat(index)} a`, 300),
    `${'|'.repeat(10_000)}\n${'|-'.repeat(10_000)}|`,
  ]) {
    assert.ok(depthOf(readMarkdown(source)) < 200, source.slice(0, 10));
  }
});

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Object.values(value).reduce<number>((most, inner) => Math.max(most, depthOf(inner)), 0);
}
