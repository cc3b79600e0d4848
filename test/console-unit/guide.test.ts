/** The pages of `docs/` as the console shows them, highlighted code, and the command menu. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderGuide } from '../../console/guide.ts';
import { highlight } from '../../console/src/components/highlight.ts';
import { GUIDES, guidesOf } from '../../console/src/components/guide-pages.ts';
import { matchesCommand } from '../../console/src/shell/commands.ts';
import { anchorsOf, PAGES, readPage } from '../docs/markdown.ts';

const DOCS = PAGES.filter((page) => page.startsWith('docs/'));
const rendered = (slug: string) => renderGuide(readPage(`docs/${slug}.md`));

test('every page of docs is listed once, under its title', () => {
  assert.deepEqual(GUIDES.map(({ slug }) => `docs/${slug}.md`).sort(), [...DOCS].sort());
  for (const { slug, title } of GUIDES) assert.equal(rendered(slug).title, title);
});

test('callers are shown the guides of the API, and not those of operators', () => {
  const slugs = guidesOf({ operator: false }).flatMap(({ pages }) => pages.map(({ slug }) => slug));
  for (const slug of ['clients', 'errors', 'limits']) assert.ok(slugs.includes(slug), slug);
  for (const slug of ['torture', 'cli', 'deploy', 'sign-in']) assert.ok(!slugs.includes(slug), slug);
  assert.deepEqual(
    guidesOf({ operator: true }).flatMap(({ pages }) => pages),
    GUIDES,
  );
});

test('every link leads to a page and a heading of the guide, to the page itself, or to another site', () => {
  let followed = 0;
  for (const { slug } of GUIDES) {
    for (const [, href = ''] of rendered(slug).html.matchAll(/href="([^"]*)"/g)) {
      if (/^https?:/.test(href)) continue;
      const [path = '', anchor] = href.split('#', 2);
      const target = path === '' ? slug : path.replace(/^\/docs\/guide\//, '');
      assert.ok(
        GUIDES.some((page) => page.slug === target),
        `${slug}: ${href}`,
      );
      if (anchor !== undefined)
        assert.ok(rendered(target).html.includes(` id="${anchor}"`), `${slug}: ${href}`);
      followed++;
    }
  }
  assert.ok(followed > 50);
});

test('headings have the anchors that GitHub gives them', () => {
  for (const { slug } of GUIDES) {
    const ids = [...rendered(slug).html.matchAll(/<h\d id="([^"]*)"/g)].map(([, id]) => id);
    const [, ...anchors] = anchorsOf(readPage(`docs/${slug}.md`));
    assert.deepEqual(ids, anchors, slug);
  }
});

test('a page has its sections, tables and code, but no comments, pictures or links to files that are not served', () => {
  const { title, html, sections } = renderGuide(
    [
      '# A `b`',
      '<!-- generated -->',
      'See [c](c.md#d), [e](../src/e.ts) and [f](https://f.test/).',
      '![g](images/g.png)',
      '## H <i>',
      '| k | v |',
      '| - | - |',
      '| `a < b` | 1 |',
      '',
      '```json',
      '{"a": "<b>"}',
      '```',
    ]
      .join('\n\n')
      .replaceAll('|\n\n|', '|\n|')
      .replaceAll('json\n\n', 'json\n')
      .replaceAll('}\n\n```', '}\n```'),
  );
  assert.equal(title, 'A b');
  assert.deepEqual(sections, [{ id: 'h-i', title: 'H <i>' }]);
  assert.match(
    html,
    /<a href="\/docs\/guide\/c#d">c<\/a>, e and <a href="https:\/\/f\.test\/" target="_blank"/,
  );
  assert.match(html, /<td><code>a &lt; b<\/code><\/td>/);
  assert.match(html, /<span class="code-string">&quot;&lt;b&gt;&quot;<\/span>/);
  assert.doesNotMatch(html, /generated|<img|src\/e\.ts|<b>/);
});

test('highlighting preserves the code and distinguishes strings from keywords', () => {
  const code = 'import os\nprint("a")  # b\n';
  const pieces = highlight(code, 'Python');
  assert.equal(pieces.map(({ text }) => text).join(''), code);
  const kindOf = (wanted: string) => pieces.find(({ text }) => text === wanted)?.kind;
  assert.deepEqual([kindOf('import'), kindOf('"a"'), kindOf('# b')], ['keyword', 'string', 'comment']);
  assert.deepEqual(highlight('a < b', 'cobol'), [{ text: 'a < b', kind: null }]);
  assert.ok(highlight('curl "https://a.test"', 'curl').some(({ kind }) => kind === 'string'));
});

test('a command is found by all of its words in any order', () => {
  const command = {
    value: 'x',
    label: 'Create chat completion',
    hint: 'POST /v1/chat/completions',
    run: () => {},
  };
  for (const text of ['', 'chat', 'Completion create', '/v1 post'])
    assert.ok(matchesCommand(command, text), text);
  for (const text of ['delete', 'chat key']) assert.ok(!matchesCommand(command, text), text);
});
