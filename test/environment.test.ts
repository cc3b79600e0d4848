import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { run } from './harness.ts';
import { reachedFrom, ROOT } from './reached.ts';

/** Returns the environment of a process that imports this module, started by a shell with these variables. */
async function environmentAfter(module: string, shell: NodeJS.ProcessEnv): Promise<NodeJS.ProcessEnv> {
  const script = `await import(${JSON.stringify(join(ROOT, module))}); console.log(JSON.stringify(process.env));`;
  const args = ['--input-type=module', '--eval', script];
  const { stdout, stderr } = await run(process.execPath, args, { PATH: process.env.PATH, ...shell });
  assert.notEqual(stdout, '', stderr);
  return JSON.parse(stdout) as NodeJS.ProcessEnv; // Printed by the script.
}

const FOREIGN = {
  SLUICE_DATABASE_URL: 'postgres://production.test/sluice',
  SLUICE_VALKEY_URL: 'redis://production.test',
  SLUICE_HOME: '/production',
  SLUICE_CONFIG: '/production/sluice.yaml',
  SLUICE_SECRET_KEY: 'production',
  OTEL_EXPORTER_OTLP_ENDPOINT: 'http://production.test',
  OPENAI_BASE_URL: 'https://production.test/v1',
  ANTHROPIC_AUTH_TOKEN: 'production',
  HF_ENDPOINT: 'https://mirror.test',
  PGHOST: 'production.test',
  TEST_POSTGRES_URL: 'postgres://production.test/postgres',
  TEST_VALKEY_URL: 'redis://production.test',
  https_proxy: 'http://proxy.test',
  NO_PROXY: 'production.test',
};

for (const module of ['test/harness.ts', 'test/support/servers.ts', 'test/support/measured-servers.ts']) {
  test(`the settings, databases and proxies of the shell do not reach what ${module} starts`, async () => {
    const env = await environmentAfter(module, {
      ...FOREIGN,
      SLUICE_TEST_MODEL: '/model.gguf',
      TMPDIR: '/tmp',
    });
    assert.deepEqual(
      Object.keys(FOREIGN).filter((name) => name in env),
      [],
    );
    assert.equal(env.SLUICE_TEST_MODEL, '/model.gguf');
    assert.equal(env.TMPDIR, '/tmp');
    // Tests of the package install with npm.
    assert.equal(env.npm_config_https_proxy, 'http://proxy.test');
  });
}

test('an empty variable stays where it skips tests, and counts as not set where it would be a path', async () => {
  const env = await environmentAfter('test/harness.ts', { TEST_VALKEY_URL: '', SLUICE_TEST_PYTHON: '' });
  assert.equal(env.TEST_VALKEY_URL, '');
  assert.ok(!('SLUICE_TEST_PYTHON' in env));
});

test('a child process keeps the settings that its test gives it', async () => {
  const parent = await environmentAfter('test/harness.ts', {});
  const child = await environmentAfter('test/harness.ts', { ...parent, SLUICE_HOME: '/tmp/test' });
  assert.equal(child.SLUICE_HOME, '/tmp/test');
});

test('every program of the tests that passes its environment on has dropped the settings of the shell', () => {
  const programs = globSync(['test/**/*.test.ts', 'bench/*.ts', 'torture/main.ts', 'tools/**/*.ts'], {
    cwd: ROOT,
  });
  const passesOn = /\.\.\.process\.env|\benv: process\.env|, process\.env\b/;
  const careless = programs.filter((program) => {
    const reached = [...reachedFrom(program)];
    return (
      reached.some(
        (file) =>
          file !== 'test/support/environment.ts' && passesOn.test(readFileSync(join(ROOT, file), 'utf8')),
      ) && !reached.includes('test/support/environment.ts')
    );
  });
  assert.deepEqual(careless, []);
});
