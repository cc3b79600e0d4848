import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { KINDS } from '../../src/accounts/limits/kinds.ts';
import { DEFAULT_MODEL_ID } from '../../src/config/schema.ts';
import { ERRORS, errorType } from '../../src/core/errors.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { PATHS } from '../../src/http/paths.ts';
import { findModel } from '../../src/models/catalog.ts';
import { ANNOTATIONS, SUPPORTED_KEYWORDS } from '../../src/json/json-schema.ts';
import * as schemaBounds from '../../src/json/json-schema.ts';
import { chat, post, requestLog, startService, until } from '../harness.ts';
import { commandOptions, generatedParts, partsOf } from './generated.ts';
import { PAGES, readPage, ROOT, rowsOf } from './markdown.ts';

const HOW_TO_FIX = 'generate it with: node test/docs/generated.ts && npm run format';

for (const [page, parts] of await generatedParts()) {
  test(`the generated parts of ${page} are up to date`, () => {
    const found = partsOf(page);
    assert.deepEqual([...found.keys()].toSorted(), [...parts.keys()].toSorted(), `${page} lacks a part`);
    for (const [name, text] of parts) {
      assert.deepEqual(
        comparable(found.get(name) ?? ''),
        comparable(text),
        `${page}, ${name}; ${HOW_TO_FIX}`,
      );
    }
  });
}

/** Returns the lines of a part without the alignment of tables. */
function comparable(text: string): string[] {
  return text
    .split('\n')
    .filter((line) => !/^\|[\s|:-]+$/.test(line))
    .map((line) => (line.startsWith('|') ? line.replaceAll(/ +/g, ' ') : line));
}

test('docs/errors.md has exactly the error codes, with status, type and meaning', () => {
  const rows = rowsOf(readPage('docs/errors.md')).filter(
    (row) => row.length === 5 && /^\d{3}$/.test(row[1] ?? ''),
  );
  const documented = rows.map((row) => row.slice(0, 4));
  const expected = Object.entries(ERRORS).map(([code, [status, meaning]]) => [
    `\`${code}\``,
    String(status),
    `\`${errorType(status)}\``,
    meaning,
  ]);
  assert.deepEqual(documented, expected);
  for (const [code = '', , , , advice = ''] of rows) assert.match(advice, /\.$/, code);
});

test('docs/limits.md has every kind of limit with its error code, and how far it can be exceeded', () => {
  const rows = rowsOf(readPage('docs/limits.md'));
  const kinds = rows.filter((row) => row.length === 4 && /^`\w+Per|^`\w+In/.test(row[0] ?? ''));
  assert.deepEqual(
    kinds.map(([name, , , code]) => [name, code]),
    KINDS.map(({ name, code }) => [`\`${name}\``, `\`${code}\``]),
  );
  const exceeded = rows.filter((row) => row.length === 2).map(([names]) => names);
  for (const { name } of KINDS)
    assert.ok(
      exceeded.some((names) => names?.includes(`\`${name}\``)),
      name,
    );
});

test('docs/api.md has every endpoint with its methods, and no other', () => {
  const rows = rowsOf(readPage('docs/api.md')).filter(([path]) => path?.startsWith('`/'));
  assert.deepEqual(
    rows.map(([path, methods]) => [path, methods]),
    PATHS.map(([path, methods]) => [`\`${path}\``, methods.join(', ')]),
  );
});

test('docs/structured-outputs.md has the supported keywords and the bounds of a schema', () => {
  const text = readPage('docs/structured-outputs.md');
  for (const keyword of [...SUPPORTED_KEYWORDS, ...ANNOTATIONS])
    assert.ok(text.includes(`\`${keyword}\``), keyword);
  for (const [name, value] of Object.entries(schemaBounds)) {
    if (typeof value === 'number') assert.match(text, new RegExp(`\\b${value}\\b`), name);
  }
});

test('every sluice command in a document exists, with its options', async () => {
  const commands = await commandOptions();
  const wrong: string[] = [];
  let read = 0;
  for (const page of PAGES) {
    for (const command of commandsOf(readPage(page))) {
      read++;
      if (!exists(command, commands)) wrong.push(`${page}: ${command}`);
    }
  }
  assert.deepEqual(wrong, []);
  assert.ok(read > 40);
  assert.ok(exists('keys create --name x --json', commands));
  for (const unknown of ['keys rename', 'key list', 'models list --all']) {
    assert.ok(!exists(unknown, commands), unknown);
  }
});

/** Returns the commands in a page. Removes the word `sluice`, which prose may omit. */
function commandsOf(text: string): string[] {
  const patterns = [
    /(?:npx sluice|main\.ts|\$ sluice|`sluice) ([a-z][^`\n|)#]*)/g,
    /`((?:models|keys|config) [a-z][^`\n]*)`/g,
  ];
  return patterns.flatMap((pattern) => [...text.matchAll(pattern)].map(([, command = '']) => command.trim()));
}

/** Returns whether the text begins with a command, and the command has all options in the text. */
function exists(text: string, commands: Awaited<ReturnType<typeof commandOptions>>): boolean {
  const words = text.split(/\s+/);
  const [first = '', second = ''] = words;
  const isGroup = [...commands.keys()].some((name) => name.startsWith(`${first} `));
  const options = commands.get(isGroup && second !== '' ? `${first} ${second}` : first);
  const flags = words.filter((word) => word.startsWith('--'));
  return options !== undefined && flags.every((flag) => options.has(flag));
}

test('every environment variable of the program, the tests and the benchmarks is documented', () => {
  const documents = PAGES.map(readPage).join('\n');
  const read = globSync(['{src,test,tools,bench,torture}/**/*.ts'], { cwd: ROOT }).flatMap((file) =>
    [...readFileSync(join(ROOT, file), 'utf8').matchAll(/\benv(?:\.|\[')([A-Z][A-Z_]*[A-Z])\b/g)].map(
      ([, name = '']) => name,
    ),
  );
  for (const name of ['SLUICE_HOST', 'SLUICE_PORT', 'SLUICE_HOME', 'SLUICE_CONFIG', 'HF_TOKEN'])
    assert.ok(read.includes(name), name);
  // Variables of the system and of Node.
  const system = ['HOME', 'PATH', 'TMPDIR', 'NODE_OPTIONS', 'NODE_COMPILE_CACHE', 'UV_THREADPOOL_SIZE'];
  // Set by test/run.ts for the test files.
  const internal = ['SLUICE_TEST_DURATIONS', 'SLUICE_TEST_PURE', 'TEST_CHROMIUM_URL'];
  const ours = [...new Set(read)].filter((name) => ![...system, ...internal].includes(name));
  assert.deepEqual(
    ours.filter((name) => !new RegExp(`\`[^\`]*\\b${name}\\b`).test(documents)),
    [],
  );
});

test('code in the headings of docs/troubleshooting.md is part of a message of the program', () => {
  const source = globSync('src/**/*.ts', { cwd: ROOT })
    .map((file) => readFileSync(join(ROOT, file), 'utf8'))
    .join('\n');
  const headings = [...readPage('docs/troubleshooting.md').matchAll(/^### (`.*)$/gm)];
  const messages = headings.flatMap(([, title = '']) =>
    [...title.matchAll(/`([^`]+)`/g)].map((match) => match[1]),
  );
  assert.ok(messages.length > 15);
  assert.deepEqual(
    messages.filter((message) => message === undefined || !source.includes(message)),
    [],
  );
});

test('the database messages in docs/databases.md are messages of the program', () => {
  const source = globSync('src/database/**/*.ts', { cwd: ROOT })
    .map((file) => readFileSync(join(ROOT, file), 'utf8'))
    .join('\n');
  const [, section = ''] = readPage('docs/databases.md').split('Messages in the log and from the commands:');
  const messages = rowsOf(section).flatMap(([first = '']) => /^`(.+)`$/.exec(first)?.[1] ?? []);
  assert.ok(messages.length > 10);
  // `…` is a variable part.
  const missing = messages.filter((message) => message.split('…').some((part) => !source.includes(part)));
  assert.deepEqual(missing, []);
});

test('docs/operations.md has every field of the request log', async () => {
  await using service = await startService();
  // A successful request with a client request ID, and a failed one with a cause.
  const responses = [
    await post(service, '/v1/chat/completions', chat(scripted({})), { 'x-client-request-id': 'mine' }),
    await post(service, '/v1/chat/completions', chat(scripted({ cutAfter: 1 }))),
  ];
  await Promise.all(responses.map((response) => response.text()));
  await until(() => requestLog(service).length === responses.length);
  const fields = new Set(requestLog(service).flatMap((line) => Object.keys(line)));
  for (const field of ['clientRequestId', 'cause', 'completionTokens']) assert.ok(fields.has(field), field);
  const page = readPage('docs/operations.md');
  // Fields of every log line.
  for (const field of ['level', 'time', 'message']) fields.delete(field);
  assert.deepEqual(
    [...fields].filter((field) => !page.includes(`\`${field}\``)),
    [],
  );
});

test('the newest version in CHANGELOG.md matches package.json', () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  assert.equal(/^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$/m.exec(readPage('CHANGELOG.md'))?.[1], version);
});

test('documents name the Node version of package.json', () => {
  const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    engines: { node: string };
  };
  const major = /\d+/.exec(engines.node)?.[0];
  for (const page of ['README.md', 'docs/quick-start.md', 'CONTRIBUTING.md'])
    assert.match(readPage(page), new RegExp(`Sluice\\s+runs\\s+on\\s+Node ${major}\\b`), page);
});

test('documents give the download size of the default model', () => {
  const { sizeBytes } = findModel(DEFAULT_MODEL_ID) ?? {};
  assert.ok(sizeBytes);
  const size = `${Math.round(sizeBytes / 1e6)} MB`;
  for (const page of ['README.md', 'docs/quick-start.md', 'docs/models.md'])
    assert.ok(readPage(page).includes(size), `${page} lacks ${size}`);
});

test('documented npm scripts exist, and all npm scripts are documented', () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  for (const page of PAGES) {
    for (const [line, name = ''] of readPage(page).matchAll(/npm run (?:--silent )?([a-z][\w:-]*)/g)) {
      assert.ok(name in scripts, `${page}: ${line}`);
    }
  }
  // npm calls these hooks.
  for (const name of Object.keys(scripts).filter((script) => !['prepack', 'prepare'].includes(script))) {
    const calls = [`npm run ${name}`, `npm run --silent ${name}`, `npm ${name}`];
    assert.ok(
      PAGES.some((page) => calls.some((call) => new RegExp(`${call}(?![\\w:-])`).test(readPage(page)))),
      `the script ${name} is not documented`,
    );
  }
});
