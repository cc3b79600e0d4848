import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sql } from 'kysely';
import { openDatabase, sqlitePath } from '../../src/database/database.ts';
import { loadConfig } from '../../src/config/load.ts';
import { folder, run } from './program.ts';

test('config check reports a valid file and exits with 0, without creating the data directory', async (t) => {
  const home = join(folder(t), 'home');
  const none = await run(['config', 'check'], { SLUICE_HOME: home });
  assert.deepEqual(
    [none.code, none.stdout, none.stderr],
    [0, '', 'No configuration file is set; the defaults apply.\n'],
  );
  const file = join(folder(t), 'sluice.yaml');
  writeFileSync(file, 'drainMs: 1\n');
  const valid = await run(['config', 'check'], { SLUICE_HOME: home, SLUICE_CONFIG: file });
  assert.deepEqual([valid.code, valid.stderr], [0, `${file} is valid.\n`]);
  assert.equal(existsSync(home), false);
});

test('config check and config print take the file as an argument, which overrides SLUICE_CONFIG', async (t) => {
  const at = folder(t);
  const [file, other] = [join(at, 'sluice.yaml'), join(at, 'other.yaml')];
  writeFileSync(file, 'drainMs: 1\n');
  writeFileSync(other, 'drainMs: soon\n');
  const env = { SLUICE_CONFIG: other };
  const checked = await run(['config', 'check', file], env);
  assert.deepEqual([checked.code, checked.stderr], [0, `${file} is valid.\n`]);
  assert.match((await run(['config', 'print', file], env)).stdout, /^drainMs: 1$/m);
  assert.equal((await run(['config', 'check'], env)).code, 1);
  const missing = await run(['config', 'check', join(at, 'none.yaml')]);
  assert.deepEqual(
    [missing.code, missing.stderr],
    [
      1,
      `The configuration ${at}/none.yaml is invalid:\n  expected a readable file; the file does not exist\n`,
    ],
  );
});

test('config print changes nothing, even if the database is that of an earlier version', async (t) => {
  const home = folder(t);
  {
    await using database = await openDatabase({ home, url: null });
    await sql`delete from migrations where name = '0018_cache_read_price'`.execute(database.kysely);
  }
  const path = sqlitePath(home);
  const before = readFileSync(path);
  const { code, stdout, stderr } = await run(['config', 'print'], { SLUICE_HOME: home });
  assert.deepEqual([code, /^drainMs: /m.test(stdout)], [0, true]);
  assert.match(stderr, /cannot be read: .*sluice\.db has the tables of an earlier version/);
  assert.deepEqual(readFileSync(path), before);
  assert.deepEqual(readdirSync(home), ['sluice.db']);
});

test('config check lists every error and exits with 1', async (t) => {
  const file = join(folder(t), 'sluice.yaml');
  writeFileSync(file, 'drainMs: soon\nqueues: 1\n');
  const { code, stdout, stderr } = await run(['config', 'check'], { SLUICE_CONFIG: file });
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /line 1, column 10: drainMs: .*\n {2}line 2, column 1: queues: .*\n$/);
});

test('config check exits with 1 for an embedded model that has no file and is not in the catalog', async (t) => {
  const file = join(folder(t), 'sluice.yaml');
  writeFileSync(file, 'models:\n  - id: nobody/nothing\n  - id: a/b\n    engine: {file: x.gguf}\n');
  const { code, stderr } = await run(['config', 'check'], { SLUICE_CONFIG: file });
  assert.equal(code, 1);
  assert.match(
    stderr,
    /^The model nobody\/nothing is not in the catalog\. Set engine\.file or replicas for it, .*\n$/,
  );
});

test('config check suggests the nearest model of the catalog', async (t) => {
  const file = join(folder(t), 'sluice.yaml');
  writeFileSync(file, 'models:\n  - id: Qwen/Qwen3-0.6\n');
  const { code, stderr } = await run(['config', 'check', file]);
  assert.equal(code, 1);
  assert.match(
    stderr,
    /^The model Qwen\/Qwen3-0\.6 is not in the catalog\. Did you mean `Qwen\/Qwen3-0\.6B`\? /,
  );
});

test('config check exits with 1 for an invalid model source', async (t) => {
  const file = join(folder(t), 'sluice.yaml');
  writeFileSync(
    file,
    `models:\n  - id: a/b\n    engine: {file: 'hf:a/b'}\n  - id: a/c\n    engine: {file: 'http://host/x.gguf'}\n  - id: a/d\n    engine: {file: 'scripted:'}\n`,
  );
  const { code, stderr } = await run(['config', 'check'], { SLUICE_CONFIG: file });
  assert.equal(code, 1);
  assert.match(
    stderr,
    /^a\/b: "hf:a\/b" is not a valid model source: .*\na\/c: ".*" is not a valid model source: expected https.*\na\/d: "scripted:" is not a valid model source: .*\n$/,
  );
});

const replica = (url: string) =>
  `drainMs: 5\nmodels:\n  - id: a/b\n    replicas: [{url: "${url}", dialect: tgi, apiKeyEnv: TGI_KEY}]\n`;

test('config print writes an equivalent file without keys and passwords', async (t) => {
  const file = join(folder(t), 'sluice.yaml');
  const printed = join(folder(t), 'printed.yaml');
  const env = { SLUICE_CONFIG: file, TGI_KEY: 'c4n4ry' };
  writeFileSync(file, replica('http://host:1/v1'));
  const first = await run(['config', 'print'], env);
  assert.deepEqual([first.code, first.stderr], [0, '']);
  writeFileSync(printed, first.stdout);
  const [before, after] = [await loadConfig(env), await loadConfig({ ...env, SLUICE_CONFIG: printed })];
  assert.deepEqual(after.file, before.file);

  writeFileSync(file, `models: [{id: a/b, engine: {file: "https://user:c4n4ry@host/x.gguf"}}]\n`);
  const second = await run(['config', 'print'], env);
  assert.match(second.stdout, /file: https:\/\/\[secret\]@host\/x.gguf/);
  for (const { stdout } of [first, second]) assert.equal(stdout.includes('c4n4ry'), false);
});
