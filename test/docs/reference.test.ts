import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ERRORS } from '../../src/errors.ts';
import { PATHS } from '../../src/http/paths.ts';
import { ANNOTATIONS, SUPPORTED_KEYWORDS } from '../../src/openai/json-schema.ts';
import * as schemaBounds from '../../src/openai/json-schema.ts';
import { generatedParts, partsOf } from './generated.ts';
import { PAGES, readPage, ROOT, rowsOf } from './markdown.ts';

const ANEW = 'write it anew: node test/docs/generated.ts && npm run format';

for (const [page, parts] of await generatedParts()) {
  test(`${page} says of fields and commands what the code says, and of no others`, () => {
    const found = partsOf(page);
    assert.deepEqual([...found.keys()].toSorted(), [...parts.keys()].toSorted(), `${page} lacks a part`);
    for (const [name, text] of parts) {
      assert.deepEqual(comparable(found.get(name) ?? ''), comparable(text), `${page}, ${name}; ${ANEW}`);
    }
  });
}

/** The lines of a part without what only aligns a table. */
function comparable(text: string): string[] {
  return text
    .split('\n')
    .filter((line) => !/^\|[\s|:-]+$/.test(line))
    .map((line) => (line.startsWith('|') ? line.replaceAll(/ +/g, ' ') : line));
}

test('docs/errors.md has every error code with its status, type and meaning, and no other', () => {
  const rows = rowsOf(readPage('docs/errors.md')).filter(([, status]) => /^\d{3}$/.test(status ?? ''));
  const documented = rows.filter((row) => row.length === 5).map((row) => row.slice(0, 4));
  const expected = Object.entries(ERRORS).map(([code, [status, type, meaning]]) => [
    `\`${code}\``,
    String(status),
    `\`${type}\``,
    meaning,
  ]);
  assert.deepEqual(documented, expected);
  for (const row of rows.filter(({ length }) => length === 5)) assert.match(row[4] ?? '', /\.$/, row[0]);
});

test('docs/api.md has every endpoint with its methods, and no other', () => {
  const rows = rowsOf(readPage('docs/api.md')).filter(([path]) => path?.startsWith('`/'));
  assert.deepEqual(
    rows.map(([path, methods]) => [path, methods]),
    PATHS.map(([path, methods]) => [`\`${path}\``, methods.join(', ')]),
  );
});

test('docs/json-answers.md has the supported keywords and the bounds of a schema', () => {
  const text = readPage('docs/json-answers.md');
  for (const keyword of [...SUPPORTED_KEYWORDS, ...ANNOTATIONS])
    assert.ok(text.includes(`\`${keyword}\``), keyword);
  for (const [name, value] of Object.entries(schemaBounds)) {
    if (typeof value === 'number') assert.match(text, new RegExp(`\\b${value}\\b`), name);
  }
});

test('every environment variable of the program, and every one of the tests, stands in a document', () => {
  const documents = PAGES.map(readPage).join('\n');
  const named = globSync(['src/**/*.ts', 'test/**/*.ts', 'bench/**/*.ts'], { cwd: ROOT }).flatMap(
    (file) => readFileSync(join(ROOT, file), 'utf8').match(/\bSLUICE_[A-Z_]*[A-Z]\b/g) ?? [],
  );
  const settings = ['SLUICE_HOST', 'SLUICE_PORT', 'SLUICE_HOME', 'SLUICE_CONFIG'];
  for (const name of settings) assert.ok(named.includes(name), name);
  assert.deepEqual(
    [...new Set(named)].filter((name) => !documents.includes(`\`${name}\``)),
    [],
  );
});

test('every npm script that a document names is one of package.json', () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  for (const page of PAGES) {
    for (const [line, name = ''] of readPage(page).matchAll(/npm run (?:--silent )?([a-z][\w:-]*)/g)) {
      assert.ok(name in scripts, `${page}: ${line}`);
    }
  }
  for (const name of Object.keys(scripts)) {
    const ways = [`npm run ${name}`, `npm run --silent ${name}`, `npm ${name}`];
    assert.ok(
      PAGES.some((page) => ways.some((way) => new RegExp(`${way}(?![\\w:-])`).test(readPage(page)))),
      `no document names the script ${name}`,
    );
  }
});
