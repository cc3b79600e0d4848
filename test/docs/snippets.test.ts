import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { DEFAULT_MODEL_ID } from '../../src/config/schema.ts';
import { runCli, startService, temporaryFolder, type TestService } from '../harness.ts';
import { blocksOf, PAGES, readPage, ROOT, snippetsOf, type Snippet } from './markdown.ts';

/** What the snippets say, and what stands in its place while they run here. */
const BASE_URL = 'http://127.0.0.1:8080';

/** The names of all snippets, so that none is lost with a marker that was mistyped. */
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
  'langchain',
];

const snippets = ['README.md', 'docs/quick-start.md', 'docs/clients.md'].flatMap(snippetsOf);

let service: TestService;
before(async () => {
  const engine = `'scripted:${JSON.stringify({ tokens: 40, tokenMs: 1 })}'`;
  service = await startService(`models:\n  - id: ${DEFAULT_MODEL_ID}\n    engine:\n      file: ${engine}\n`);
});
after(() => service[Symbol.asyncDispose]());

test('every marked snippet is found, and each that calls the service is marked', () => {
  assert.deepEqual(
    snippets.map(({ name }) => name),
    EXPECTED,
  );
});

for (const snippet of snippets) {
  const missing = missingFor(snippet);
  test(
    `${snippet.page}: the snippet ${snippet.name} runs and prints an answer`,
    { skip: missing },
    async () => {
      const { code, stdout, stderr } = await run(snippet);
      assert.equal(code, 0, `${stdout}\n${stderr}`);
      const expected = EXPECTATIONS[snippet.name] ?? /\w+ \w+ \w+/;
      assert.match(stdout, expected, stderr);
    },
  );
}

test('every YAML block is a configuration that config check accepts', async () => {
  await using folder = await temporaryFolder();
  const blocks = PAGES.flatMap((page) => blocksOf(readPage(page), 'yaml').map((code) => ({ page, code })));
  assert.ok(blocks.length > 8);
  for (const [index, { page, code }] of blocks.entries()) {
    const file = join(folder.path, `${index}.yaml`);
    await writeFile(file, code);
    const names = [...code.matchAll(/\w+Env: (\w+)/g)].map(([, name = '']) => name);
    const keys = Object.fromEntries(names.map((name) => [name, 'x']));
    const { code: exit, stderr } = await runCli(['config', 'check'], {
      ...process.env,
      ...keys,
      SLUICE_CONFIG: file,
    });
    assert.deepEqual([exit, stderr], [0, `${file} is valid.\n`], `${page}:\n${code}`);
  }
});

/** What a snippet must print where the words of the scripted engine alone are not enough. */
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
  'node-json': /\{ city: '.*', capital: (true|false) \}/,
};

/** Why a snippet cannot run on this machine; false where it can, or where a run may skip nothing. */
function missingFor({ language }: Snippet): string | false {
  if (process.env.CI) return false;
  if (language === 'python') {
    const { status } = spawnSync(python(), ['-c', 'import openai']);
    return status === 0 ? false : 'no Python with the package openai (SLUICE_TEST_PYTHON names one)';
  }
  if (language === 'sh') return spawnSync('curl', ['--version']).status === 0 ? false : 'no curl';
  return false;
}

function python(): string {
  return process.env.SLUICE_TEST_PYTHON ?? 'python3';
}

function run({ language, code }: Snippet): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const [program = '', ...args] =
    {
      sh: ['bash', '-euo', 'pipefail', '-s'],
      python: [python(), '-'],
      ts: [process.execPath, '--input-type=module-typescript', '-'],
    }[language] ?? [];
  const env = { ...process.env, SLUICE_API_KEY: service.key };
  // Bare imports are looked up from the working folder.
  const child = spawn(program, args, { cwd: ROOT, env });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.end(code.replaceAll(BASE_URL, service.url));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (exit) => resolve({ code: exit, stdout, stderr }));
  });
}
