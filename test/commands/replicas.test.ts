import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { folder, run } from './program.ts';

const YAML = `
models:
  - id: acme/large
    replicas:
      - { url: 'http://10.0.0.11:8000', dialect: vllm }
      - { url: 'http://10.0.0.12:8000', dialect: vllm }
  - id: acme/small
    engine: { file: 'scripted:{}' }
`;

test('replicas are listed, drained and resumed', async (t) => {
  const home = folder(t);
  const file = join(home, 'sluice.yaml');
  writeFileSync(file, YAML);
  const env = { SLUICE_HOME: home, SLUICE_CONFIG: file };
  const list = async (): Promise<Record<string, unknown>[]> =>
    JSON.parse((await run(['replicas', 'list', '--json'], env)).stdout);
  assert.deepEqual(await list(), [
    { model: 'acme/large', name: 'acme/large#0', server: 'http://10.0.0.11:8000', drained_at: null },
    { model: 'acme/large', name: 'acme/large#1', server: 'http://10.0.0.12:8000', drained_at: null },
    { model: 'acme/small', name: 'embedded:acme/small', server: 'embedded:acme/small', drained_at: null },
  ]);
  const first = await run(['replicas', 'drain', 'acme/large', 'acme/large#0'], env);
  assert.deepEqual(
    [first.code, first.stdout, first.stderr],
    [
      0,
      '',
      'Drained acme/large#0 (http://10.0.0.11:8000). Running requests finish; the Operations page shows how many are left.\n',
    ],
  );
  assert.match(String((await list())[0]?.['drained_at']), /^\d{4}-\d\d-\d\dT/);
  const last = await run(['replicas', 'drain', 'acme/large', 'acme/large#1'], env);
  assert.match(last.stderr, /\nAll replicas of acme\/large are drained now: its requests get 503\.\n$/);
  const { stdout: table } = await run(['replicas', 'list'], env);
  assert.match(table, /^MODEL +NAME +SERVER +DRAINED SINCE\n/);
  assert.match(table, /^acme\/small +embedded:acme\/small +embedded:acme\/small +-$/m);
  const resume = () => run(['replicas', 'resume', 'acme/large', 'acme/large#0'], env);
  assert.equal((await resume()).stderr, 'Resumed acme/large#0 (http://10.0.0.11:8000).\n');
  assert.equal((await resume()).stderr, 'acme/large#0 is not drained.\n');
  assert.equal((await list())[0]?.['drained_at'], null);
  const { stdout: audit } = await run(['audit', 'list', '--json'], env);
  const entries: Record<string, unknown>[] = JSON.parse(audit);
  assert.deepEqual(
    entries.map(({ action, subject }) => [action, subject]),
    ['replica.resume', 'replica.drain', 'replica.drain'].map((action) => [action, 'engine:acme/large']),
  );
});

test('a replica that is not in the configuration is not drained', async (t) => {
  const home = folder(t);
  const file = join(home, 'sluice.yaml');
  writeFileSync(file, YAML);
  const env = { SLUICE_HOME: home, SLUICE_CONFIG: file };
  for (const [model, replica, message] of [
    [
      'acme/large',
      'acme/large#2',
      'The model acme/large has no replica with this name. Its replicas: acme/large#0, acme/large#1.',
    ],
    ['acme/other', 'acme/other#0', 'There is no model acme/other.'],
  ] as const) {
    const refused = await run(['replicas', 'drain', model, replica], env);
    assert.deepEqual([refused.code, refused.stderr], [1, `${message}\n`]);
  }
});
