import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { run, temporaryFolder } from '../harness.ts';

/** The shortest run of each benchmark that needs no other program, with what it must print. */
const BENCHES: readonly { name: string; args: string[]; printed: RegExp; model?: boolean }[] = [
  {
    name: 'gateway',
    args: ['--only', 'sluice', '--measure', 'chunk', '--streams', '2', '--chunks', '5', '--rounds', '2'],
    printed: /^ {2}sluice A\/A +[\d.]+ us {2}[\d.]+ \([\d.]+ to [\d.]+\) x sluice$/m,
  },
  {
    name: 'routing',
    args: ['--only', 'sluice cost', '--load', 'fairness', '--rounds', '1'],
    printed: /^ {2}sluice cost +TTFT of one request: idle \d+ ms, flooded \d+ ms/m,
  },
  {
    name: 'ledger',
    args: ['--requests', '200', '--rows', '2000', '--rounds', '1'],
    printed: /^ {2}latest page of all accounts: [\d.]+ ms, [\d.]+ ms$/m,
  },
  {
    name: 'grammar',
    args: ['--schemas', '5', '--tokens', '2'],
    printed: /^steps: median [\d.]+ ms, p99 [\d.]+ ms, \d schemas refused$/m,
    model: true,
  },
];

const SKIP = process.env.SLUICE_TEST_MODEL === undefined && 'SLUICE_TEST_MODEL is not set';

for (const { name, args, printed, model = false } of BENCHES)
  test(`the ${name} benchmark runs`, { skip: model && SKIP }, async () => {
    const { code, stdout, stderr } = await run(process.execPath, [script(name), ...args], process.env);
    assert.equal(code, 0, stderr);
    assert.match(stdout, printed);
  });

test('the engine benchmark runs, with another server in place of llama-server', { skip: SKIP }, async () => {
  await using folder = await temporaryFolder();
  const server = join(folder.path, 'llama-server');
  const upstream = join(import.meta.dirname, '../../bench/gateway/upstream.ts');
  const start = `while [ $# -gt 0 ]; do [ "$1" = --port ] && port=$2; shift; done; exec '${process.execPath}' '${upstream}' "$port"`;
  await writeFile(server, `#!/bin/sh\n${start}\n`, { mode: 0o700 });
  const sizes = ['--threads', '1', '--rounds', '2', '--streams', '1', '--tokens', '2'];
  const without = ['queue-slots', 'prefix-slots', 'conversations', 'copying', 'depths', 'agents'].flatMap(
    (name) => [`--${name}`, ''],
  );
  const args = [script('engine'), '--llama-server', server, ...sizes, ...without];
  const { code, stdout, stderr } = await run(process.execPath, args, process.env);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^ +1 +1 +[\d.]+ \/ +[\d.]+ {2}[\d.]+ \([\d.]+ to [\d.]+\)/m);
});

function script(name: string): string {
  return join(import.meta.dirname, `../../bench/${name}.ts`);
}
