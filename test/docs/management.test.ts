import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEFAULT_MODEL_ID } from '../../src/config/schema.ts';
import { run, startService, temporaryFolder } from '../harness.ts';
import { readPage, snippetsOf } from './markdown.ts';

const PAGE = 'docs/management.md';

test('the examples in docs/management.md succeed when run in order', async (t) => {
  if (!process.env.CI && (await run('curl', ['--version'], process.env).catch(() => null)) === null) {
    t.skip('no curl');
    return;
  }
  const engine = `'scripted:${JSON.stringify({ tokens: 10 })}'`;
  await using service = await startService(
    `models:\n  - id: ${DEFAULT_MODEL_ID}\n    engine:\n      file: ${engine}\n`,
  );
  await using folder = await temporaryFolder();
  const { key } = await service.service.keys.create({ name: 'ops', kind: 'admin' });
  const snippets = snippetsOf(PAGE);
  assert.equal(snippets.length, readPage(PAGE).match(/^<!-- snippet/gm)?.length);
  const script = snippets.map(({ code }) => code.replaceAll('http://127.0.0.1:8080', service.url));
  // Makes each curl call print its status.
  const prelude = `cd ${folder.path}; curl() { command curl -w '\\n%{http_code} %{stderr}%{http_code} %{url}\\n' "$@"; }`;
  const { code, stdout, stderr } = await run(
    'bash',
    ['-euo', 'pipefail', '-c', [prelude, ...script].join('\n')],
    {
      PATH: process.env.PATH,
      SLUICE_ADMIN_KEY: key.reveal(),
    },
  );
  assert.equal(code, 0, stdout + stderr);
  const statuses = stderr.trim().split('\n');
  assert.equal(statuses.length, script.join('\n').match(/\bcurl /g)?.length);
  for (const line of statuses) assert.match(line, /^20[01] http/, stdout);
  assert.match(stdout, /"revoked_at":"/);
  assert.match(stdout, /"action":"account\.suspend"/);
});
