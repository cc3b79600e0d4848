import assert from 'node:assert/strict';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '..');
const source = join(root, 'src');

/** The rooms of `src`, and which others each of them may import. ARCHITECTURE.md has the same table. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  core: [],
  support: [],
  json: [],
  protocols: ['json'],
  'protocols/openai': ['json', 'protocols'],
  'protocols/responses': ['json', 'protocols', 'protocols/openai'],
  'protocols/anthropic': ['json', 'protocols', 'protocols/openai'],
  models: [],
  engine: ['json'],
  'engine/llama': [
    'models',
    'engine',
    'engine/llama/native',
    'engine/llama/prompt',
    'engine/llama/output',
    'engine/llama/decode',
    'engine/llama/conversations',
    'engine/llama/embeddings',
    'engine/llama/tool-calls',
  ],
  'engine/llama/native': ['models'],
  'engine/llama/grammar': ['json'],
  'engine/llama/tool-calls': ['json', 'engine/llama/grammar'],
  'engine/llama/prompt': ['json', 'models', 'engine/llama/native', 'engine/llama/tool-calls'],
  'engine/llama/output': [
    'json',
    'engine/llama/native',
    'engine/llama/grammar',
    'engine/llama/tool-calls',
    'engine/llama/prompt',
  ],
  'engine/llama/conversations': ['models', 'engine', 'engine/llama/native'],
  'engine/llama/embeddings': ['engine/llama/native', 'engine/llama/prompt'],
  'engine/llama/decode': [
    'engine',
    'engine/llama/native',
    'engine/llama/prompt',
    'engine/llama/output',
    'engine/llama/conversations',
  ],
  replicas: ['json', 'models', 'engine', 'replicas/wire'],
  'replicas/wire': ['json'],
  database: [],
  accounts: ['database'],
  alerts: ['accounts', 'database', 'identity', 'routing'],
  config: [],
  identity: ['accounts', 'database'],
  routing: ['engine', 'replicas'],
  serving: [
    'routing',
    'replicas',
    'engine',
    'engine/llama',
    'engine/llama/native',
    'engine/llama/conversations',
    'models',
    'database',
    'accounts',
  ],
  inference: ['routing', 'replicas', 'accounts', 'json'],
  metrics: [],
  tracing: [],
  http: [
    'inference',
    'json',
    'protocols',
    'protocols/openai',
    'protocols/responses',
    'protocols/anthropic',
    'replicas/wire',
    'accounts',
    'identity',
    'routing',
    'serving',
    'metrics',
    'tracing',
    'alerts',
  ],
  commands: [
    'models',
    'engine',
    'engine/llama',
    'engine/llama/native',
    'database',
    'accounts',
    'config',
    'identity',
    'routing',
    'serving',
    'http',
    'alerts',
  ],
};

/** The same for the folders of the console. Besides, every folder may import `notify.ts`, and `shell` the list of pages. */
const CONSOLE_MAY_IMPORT: Record<string, readonly string[]> = {
  api: [],
  format: ['api'],
  state: ['api'],
  components: ['api', 'format', 'state'],
  charts: ['format', 'state', 'components'],
  snippets: [],
  members: ['api', 'state', 'components'],
  requests: ['api', 'format', 'state', 'components'],
  audit: ['api', 'format', 'components'],
  health: ['api', 'format'],
  connect: ['api', 'format', 'state', 'components', 'snippets', 'requests'],
  shell: ['api', 'format', 'state', 'components'],
  pages: [
    'api',
    'format',
    'state',
    'components',
    'charts',
    'snippets',
    'members',
    'requests',
    'audit',
    'health',
    'connect',
  ],
};

/** The rooms that every room may import: types, values and helpers. */
const SHARED_ROOMS = new Set(['core', 'support']);

/** Files of other rooms that every room may import. */
const SHARED = new Set(['config/schema.ts', 'config/alerts.ts', 'config/model.ts', 'config/plan.ts']);

/** The composition roots, which may import everything. */
const ROOTS = new Set(['main.ts', 'service.ts']);

interface Import {
  from: string;
  to: string;
}

const consoleSource = join(root, 'console', 'src');
const consoleFiles = readdirSync(consoleSource, { recursive: true, encoding: 'utf8' })
  .filter((file) => /\.tsx?$/.test(file))
  .map((file) => file.replaceAll('\\', '/'));

const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.replaceAll('\\', '/'));

function importsOf(base: string, sources: readonly string[]): Import[] {
  return sources.flatMap((from) => {
    const text = readFileSync(join(base, from), 'utf8');
    const specifiers = [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map((match) => match[1] ?? '');
    return specifiers.map((specifier) => ({
      from,
      to: relative(base, resolve(base, dirname(from), specifier)).replaceAll('\\', '/'),
    }));
  });
}

const imports = importsOf(source, files);
const consoleImports = importsOf(consoleSource, consoleFiles);

const folderOf = (file: string) => (file.includes('/') ? (file.split('/')[0] ?? '') : '');

/** Returns the deepest room of the table that has the file; '' for the loose files. */
function roomOf(file: string): string {
  const folders = file.split('/').slice(0, -1);
  while (folders.length > 0 && MAY_IMPORT[folders.join('/')] === undefined) folders.pop();
  return folders.join('/');
}

test('rooms import only what the table allows', () => {
  const forbidden = imports.filter(({ from, to }) => {
    const [own, other] = [roomOf(from), roomOf(to)];
    if (ROOTS.has(from) || own === other || SHARED.has(to)) return false;
    if (SHARED_ROOMS.has(other)) return SHARED_ROOMS.has(own);
    if (own === 'commands' && ROOTS.has(to)) return false;
    return !(MAY_IMPORT[own]?.includes(other) ?? false);
  });
  assert.deepEqual(forbidden, []);
});

test('the table of rooms allows nothing that is not used', () => {
  const used = new Set(imports.map(({ from, to }) => `${roomOf(from)} -> ${roomOf(to)}`));
  const unused = Object.entries(MAY_IMPORT).flatMap(([own, others]) =>
    others.filter((other) => !used.has(`${own} -> ${other}`)).map((other) => `${own} -> ${other}`),
  );
  assert.deepEqual(unused, []);
});

test('no circle of rooms', () => {
  const done = new Set<string>();
  const walk = (room: string, path: readonly string[]): void => {
    assert.ok(!path.includes(room), `circle: ${[...path, room].join(' -> ')}`);
    if (done.has(room)) return;
    for (const other of MAY_IMPORT[room] ?? []) walk(other, [...path, room]);
    done.add(room);
  };
  for (const room of Object.keys(MAY_IMPORT)) walk(room, []);
});

test('folders of the console import only what their table allows', () => {
  const forbidden = consoleImports.filter(({ from, to }) => {
    const [own, other] = [folderOf(from), folderOf(to)];
    if (own === '' || own === other || to === 'notify.ts' || to.startsWith('../')) return false;
    return !(own === 'shell' && to === 'pages.tsx') && !(CONSOLE_MAY_IMPORT[own]?.includes(other) ?? false);
  });
  assert.deepEqual(forbidden, []);
});

test('a page of the console imports nothing from another page', () => {
  const pageOf = (file: string) => /^pages\/([^/]+)\//.exec(file)?.[1];
  const foreign = consoleImports.filter(({ from, to }) => {
    const [own, other] = [pageOf(from), pageOf(to)];
    return own !== undefined && other !== undefined && own !== other;
  });
  assert.deepEqual(foreign, []);
});

/** Which of these folders may import which. All may import `src`, and nothing imports the tools. */
const OUTSIDE_MAY_IMPORT: Record<string, readonly string[]> = {
  'test/support': [],
  test: ['test/support', 'torture'],
  bench: ['test/support'],
  torture: ['test/support'],
  tools: ['test', 'test/support'],
};

test('tests, benchmarks and torture share nothing but test/support', () => {
  const folderOf = (file: string) =>
    file.startsWith('test/support/') ? 'test/support' : (file.split('/')[0] ?? '');
  const sources = globSync('{test,tools,bench,torture}/**/*.ts', { cwd: root });
  const forbidden = importsOf(root, sources).filter(({ from, to }) => {
    const [own, other] = [folderOf(from), folderOf(to)];
    if (own === other || !(other in OUTSIDE_MAY_IMPORT)) return false;
    return !OUTSIDE_MAY_IMPORT[own]?.includes(other);
  });
  assert.ok(sources.length > 300);
  assert.deepEqual(forbidden, []);
});

test('every path that a tool names exists', () => {
  const expand = (glob: string): string[] => {
    const [braces, list = ''] = /\{([^{}]*)\}/.exec(glob) ?? [];
    return braces === undefined
      ? [glob]
      : list.split(',').flatMap((name) => expand(glob.replace(braces, name)));
  };
  const named = globSync(['tools/**/*.ts', 'test/cpu-kernels.ts'], { cwd: root }).flatMap((file) =>
    [
      ...readFileSync(join(root, file), 'utf8').matchAll(/'((?:src|test|tools|docs)\/[^'\s]*\.\w+)'/g),
    ].flatMap(([, glob = '']) => expand(glob)),
  );
  assert.ok(named.length > 20);
  assert.deepEqual(
    named.filter((glob) => globSync(glob, { cwd: root }).length === 0),
    [],
  );
});

test('the tables have every folder', () => {
  const namesOf = (all: readonly string[], nameOf: (file: string) => string) =>
    [...new Set(all.map(nameOf))].filter((name) => name !== '');
  assert.deepEqual(namesOf(files, roomOf).sort(), Object.keys(MAY_IMPORT).sort());
  assert.deepEqual(namesOf(consoleFiles, folderOf).sort(), Object.keys(CONSOLE_MAY_IMPORT).sort());
  assert.deepEqual(
    files.filter((file) => roomOf(file) === '' && !ROOTS.has(file)),
    [],
  );
});

test('ARCHITECTURE.md has the same tables', () => {
  const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8').replaceAll(/ +/g, ' ');
  for (const [name, allowed] of Object.entries({ ...MAY_IMPORT, ...CONSOLE_MAY_IMPORT })) {
    const names = allowed.length > 0 ? allowed.join(', ') : 'nothing';
    const row = new RegExp(`^\\| ${name} \\|(?: [^|]* \\|)? ${names} \\|$`, 'm');
    assert.match(text, row, `ARCHITECTURE.md lacks the row of ${name}: ${names}`);
  }
});

test('there are no import cycles', () => {
  const next = new Map<string, string[]>();
  for (const { from, to } of imports) next.set(from, [...(next.get(from) ?? []), to]);
  const done = new Set<string>();
  const walk = (file: string, path: readonly string[]): void => {
    assert.ok(!path.includes(file), `import cycle: ${[...path, file].join(' -> ')}`);
    if (done.has(file)) return;
    for (const to of next.get(file) ?? []) walk(to, [...path, file]);
    done.add(file);
  };
  for (const file of files) walk(file, []);
});

test('the contract of the management API depends neither on Node nor on other parts of the service', () => {
  const reached = new Set(['http/api/contract.ts']);
  // The loop also visits files that it adds.
  for (const file of reached) {
    for (const { from, to } of imports) if (from === file) reached.add(to);
  }
  const dependencies = [...reached].filter((file) => !file.startsWith('http/api/contract'));
  assert.deepEqual(dependencies.sort(), [
    'accounts/audit-actions.ts',
    'accounts/bounds.ts',
    'accounts/ledger/cost.ts',
    'accounts/ledger/request-json.ts',
    'accounts/ledger/request-notes.ts',
    'accounts/ledger/roll-ups.ts',
    'config/plan.ts',
    'core/errors.ts',
    'core/generation.ts',
    'core/sampling.ts',
    'database/ledger-columns.ts',
  ]);
  for (const file of reached) {
    assert.doesNotMatch(readFileSync(join(source, file), 'utf8'), /from '(?!\.|zod')/, file);
  }
});

test('the thread for SQLite loads no packages, because loading Kysely would be most of the cost of starting it', () => {
  const reached = new Set(['database/sqlite-thread.ts']);
  // The loop also visits files that it adds.
  for (const file of reached) {
    const text = readFileSync(join(source, file), 'utf8');
    for (const [, name = ''] of text.matchAll(/^(?:import|export)(?! type)[^;]*? from '([^']+)'/gm)) {
      if (name.startsWith('.')) reached.add(relative(source, resolve(source, dirname(file), name)));
      else assert.match(name, /^node:/, file);
    }
  }
  assert.ok(reached.has('database/errors.ts'), 'the imports are found');
});

test('every branch on the kind of a request handles all kinds', () => {
  // A `switch` or `Record` that lacks a new kind does not compile. A comparison compiles, and takes the other branch.
  const comparisons = files
    .map((file) => ({ file, text: readFileSync(join(source, file), 'utf8') }))
    .filter(({ text }) => /\b(Generation|Chat|Text)(Request|Kind)\b/.test(text))
    .flatMap(({ file, text }) =>
      [...text.matchAll(/^.*\bkind [!=]== '(chat|text)'.*$/gm)].map(([line]) => `${file}: ${line.trim()}`),
    );
  assert.deepEqual(comparisons, []);
});

test('the console imports nothing but the contract from the service', () => {
  assert.deepEqual(
    consoleImports.filter(({ to }) => to.startsWith('../../')),
    [{ from: 'api/client.ts', to: '../../src/http/api/contract.ts' }],
  );
});

test('only the api folder of the console calls the service', () => {
  const callers = consoleFiles.filter((file) =>
    /\bfetch\(/.test(readFileSync(join(consoleSource, file), 'utf8')),
  );
  assert.deepEqual(
    callers.filter((file) => !file.startsWith('api/')),
    [],
  );
});

const BARREL_NAMES = /(^|\/)(index|mod|barrel)\.tsx?$/;

/** Returns whether a file has exports but no declarations. */
function isBarrel(text: string): boolean {
  const code = text.replaceAll(/\/\*.*?\*\/|^\s*\/\/[^\n]*$/gms, '');
  const rest = code.replaceAll(
    /^import\b[^;]*;|^export\s+(type\s+)?(\*(\s+as\s+\w+)?|\{[^}]*\})(\s+from\s+'[^']*')?;|^export\s+default\s+\w+;/gm,
    '',
  );
  return /^export\b/m.test(code) && rest.trim() === '';
}

test('there are no barrel files', () => {
  const all = [
    ...files.map((file) => join('src', file)),
    ...consoleFiles.map((file) => join('console/src', file)),
  ];
  const barrels = all.filter(
    (file) => BARREL_NAMES.test(file) || isBarrel(readFileSync(join(root, file), 'utf8')),
  );
  assert.deepEqual(barrels, []);
});

test('barrel files of any form are detected', () => {
  for (const text of [
    "export * from './a.ts';",
    "export * as a from './a.ts';",
    "/** All of it. */\nexport { a, type B } from './a.ts';\nexport type { C } from './c.ts';",
    "import { a } from './a.ts';\n\n// Theirs.\nexport { a };\n",
    "import a from './a.ts';\nexport default a;",
  ])
    assert.ok(isBarrel(text), text);
  for (const text of [
    "import { a } from './a.ts';\nexport const b = a + 1;",
    "export { a } from './a.ts';\nexport function b() {}",
    "import './a.ts';",
    "import { run } from './a.ts';\nawait run();",
  ])
    assert.ok(!isBarrel(text), text);
});
