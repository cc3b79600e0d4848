import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { parse } from 'yaml';
import { DEFAULT_MODEL_ID } from '../../src/config/schema.ts';
import { runPython, WITH_PYTHON } from './clients/python.ts';
import {
  run,
  runCli,
  startService,
  temporaryFolder,
  type ProcessResult,
  type TestService,
} from '../harness.ts';
import { blocksOf, PAGES, readPage, ROOT, snippetsOf, type Snippet } from '../docs/markdown.ts';

/** The base URL in the snippets, replaced by that of the test service. */
const BASE_URL = 'http://127.0.0.1:8080';

/** The model in the snippets of docs/embeddings.md. */
const EMBEDDING_MODEL_ID = 'sentence-transformers/all-MiniLM-L6-v2';

/** The names of all snippets, to detect mistyped markers. */
const EXPECTED = [
  'readme-curl',
  'readme-python',
  'readme-typescript',
  'quick-start-curl',
  'curl-stream',
  'curl-text',
  'python-chat',
  'python-errors',
  'node-chat',
  'node-errors',
  'node-json',
  'ai-sdk',
  'ai-sdk-languages',
  'langchain',
  'tools-curl',
  'tools-python',
  'tools-typescript',
  'reasoning-python',
  'reasoning-typescript',
  'idempotency-typescript',
  'embeddings-python',
  'embeddings-typescript',
  'rerank-curl',
];

/** Why snippets that need curl are skipped, or false. */
const NO_CURL = spawnSync('curl', ['--version']).status !== 0 && 'no curl';

const snippets = [
  'README.md',
  'docs/quick-start.md',
  'docs/clients.md',
  'docs/tools.md',
  'docs/reasoning.md',
  'docs/idempotency.md',
  'docs/embeddings.md',
  'docs/rerank.md',
].flatMap(snippetsOf);

let service: TestService;
before(async () => {
  const engine = `'scripted:${JSON.stringify({ tokens: 40, tokenMs: 1 })}'`;
  service = await startService(`
models:
  - id: ${DEFAULT_MODEL_ID}
    required: true
    engine: {file: ${engine}}
  - id: ${EMBEDDING_MODEL_ID}
    required: true
    engine: {file: 'scripted:{"dimensions": 64}'}
  - id: acme/reranker
    required: true
    engine: {file: 'scripted:{"ranks": true}'}
`);
});
after(() => service[Symbol.asyncDispose]());

test('all expected snippets are marked', () => {
  assert.deepEqual(
    snippets.map(({ name }) => name),
    EXPECTED,
  );
});

for (const snippet of snippets.filter(({ language }) => language !== 'python')) {
  const skip = snippet.language === 'sh' && NO_CURL;
  test(`${snippet.page}: the snippet ${snippet.name} runs and prints the response`, { skip }, async () => {
    assertPrinted(snippet, await runSnippet(snippet));
  });
}

test('each Python snippet runs and prints the response', WITH_PYTHON, async (t) => {
  const pythonSnippets = snippets.filter(({ language }) => language === 'python');
  const results = await runPython(pythonSnippets.map(programOf), environment());
  for (const [i, snippet] of pythonSnippets.entries())
    await t.test(`${snippet.page}: ${snippet.name}`, () => assertPrinted(snippet, results[i]));
});

test('config check accepts every YAML block', async () => {
  await using folder = await temporaryFolder();
  const blocks = PAGES.flatMap((page) => blocksOf(readPage(page), 'yaml').map((code) => ({ page, code })));
  assert.ok(blocks.length > 8);
  for (const [index, { page, code }] of blocks.entries()) {
    const file = join(folder.path, `${index}.yaml`);
    await writeFile(file, code);
    const names = [...code.matchAll(/\w+Env: (\w+)/g)].map(([, name = '']) => name);
    const keys = Object.fromEntries(names.map((name) => [name, exampleOf(name)]));
    const { code: exit, stderr } = await runCli(['config', 'check'], {
      ...process.env,
      ...keys,
      SLUICE_CONFIG: file,
    });
    assert.deepEqual([exit, stderr], [0, `${file} is valid.\n`], `${page}:\n${code}`);
  }
});

/** Returns a valid value for an environment variable. */
function exampleOf(name: string): string {
  if (name.endsWith('_URL')) return 'https://a.example/';
  return name.endsWith('_WEBHOOK_SECRET') ? `whsec_${Buffer.alloc(32).toString('base64')}` : 'x';
}

test('YAML blocks for other programs are valid YAML', () => {
  const blocks = PAGES.flatMap((page) => blocksOf(readPage(page), 'yml').map((code) => ({ page, code })));
  assert.ok(blocks.length > 0);
  for (const { page, code } of blocks) assert.doesNotThrow(() => parse(code), `${page}:\n${code}`);
});

/** The expected output of snippets that print more than the text of the scripted engine. */
const EXPECTATIONS: Readonly<Record<string, RegExp>> = {
  'readme-curl': /"object":"chat.completion"/,
  'quick-start-curl': /data: \[DONE\]/,
  'curl-stream': /"finish_reason":"stop"[^\n]*"usage"[^\n]*\n\ndata: \[DONE\]/,
  'curl-text': /"object":"text_completion"[\s\S]*"context_length":/,
  'python-chat': new RegExp(DEFAULT_MODEL_ID),
  'python-errors': /^invalid_value temperature [0-9a-f-]{36}$/m,
  'node-chat': new RegExp(`^${DEFAULT_MODEL_ID}$`, 'm'),
  'node-errors': /^invalid_value temperature [0-9a-f-]{36}$/m,
  'ai-sdk': /^400 .*temperature/m,
  langchain: /^404 .*acme\/missing/m,
  'tools-curl': /"name":"get_temperature"[\s\S]*"finish_reason":"tool_calls"[\s\S]*"finish_reason":"stop"/,
  'tools-python': /^get_temperature \{'city': '.*'\} 17\n\S+ \S+/m,
  'tools-typescript': /^get_temperature \{ city: '.*' \} 17\n\S+ \S+/m,
  'reasoning-python': /^None\n\S+ \S+[\s\S]*\n0$/m,
  'idempotency-typescript': /^\S+ \S+[\s\S]*\ntrue$/m,
  'embeddings-python': /^How long .*\n(  -?[01]\.\d\d \w+ \w+.*\n){2}Why/m,
  'rerank-curl': /"results":\[\{"index":1,/,
  'node-json': /\{ city: '.*', capital: (true|false) \}/,
};

function assertPrinted({ name }: Snippet, result: ProcessResult | undefined): void {
  assert.ok(result);
  const { code, stdout, stderr } = result;
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  assert.match(stdout, EXPECTATIONS[name] ?? /\w+ \w+ \w+/, stderr);
}

function runSnippet(snippet: Snippet): Promise<ProcessResult> {
  const [program = '', ...args] =
    snippet.language === 'sh'
      ? ['bash', '-euo', 'pipefail', '-s']
      : [process.execPath, '--input-type=module-typescript', '-'];
  // Bare imports are resolved from the working directory.
  return run(program, args, environment(), { cwd: ROOT, input: programOf(snippet) });
}

function programOf({ code }: Snippet): string {
  return code.replaceAll(BASE_URL, service.url);
}

function environment(): NodeJS.ProcessEnv {
  return { ...process.env, SLUICE_API_KEY: service.key };
}
