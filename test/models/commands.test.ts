import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { CATALOG } from '../../src/models/catalog.ts';
import { collectOutput, MAIN, runCli } from '../harness.ts';
import { sha256 } from './fake-hub.ts';
import { Fixture } from './store-fixture.ts';

const { NAME, BYTES } = Fixture;

const envOf = ({ home, hub }: Fixture) => ({ PATH: '', SLUICE_HOME: home, HF_ENDPOINT: hub.endpoint });

const run = (fixture: Fixture, ...args: readonly string[]) => runCli(['models', ...args], envOf(fixture));

describe('sluice models', () => {
  it('pulls, lists, verifies and removes models', async () => {
    await using fixture = await Fixture.open();
    const pulled = await run(fixture, 'pull', NAME);
    assert.deepEqual([pulled.code, pulled.stdout], [0, `${fixture.file}\n`], pulled.stderr);
    assert.match(pulled.stderr, /Downloading tiny\.gguf from .*, 0 bytes of 301 kB/);

    const listed = await run(fixture, 'list', '--json');
    const [model] = JSON.parse(listed.stdout);
    assert.deepEqual(
      { ...model, pulled_at: typeof model.pulled_at },
      {
        id: null,
        file: fixture.file,
        files: [fixture.file],
        size_bytes: BYTES.length,
        sha256: sha256(BYTES),
        source: NAME,
        pulled_at: 'string',
      },
    );
    assert.match((await run(fixture, 'list')).stdout, /^ID +SIZE +SOURCE +FILE\n- +30\d kB +hf:owner/);

    const verified = await run(fixture, 'verify', '--json');
    assert.deepEqual(JSON.parse(verified.stdout), [{ file: fixture.file, ok: true, fault: null }]);
    assert.equal((await run(fixture, 'remove', NAME)).code, 0);
    const again = await run(fixture, 'remove', NAME);
    assert.deepEqual([again.code, again.stderr], [1, `${NAME} is not downloaded\n`]);
  });

  it('lists the catalog', async () => {
    await using fixture = await Fixture.open();
    const { stdout } = await run(fixture, 'list', '--available', '--json');
    const ids = JSON.parse(stdout).map(({ id }: { id: string }) => id);
    assert.deepEqual(
      ids,
      CATALOG.map(({ id }) => id),
    );
    const table = (await run(fixture, 'list', '--available')).stdout;
    assert.match(table, /^ID +SIZE .* LICENSE +TOOLS +REASONING +DOWNLOADED +GOOD FOR$/m);
    assert.match(table, /^Qwen\/Qwen3-0\.6B .* Apache-2\.0 +yes +yes +- /m);
    assert.match(table, /^Qwen\/Qwen2\.5-0\.5B-Instruct .* Apache-2\.0 +yes +- +- /m);
  });

  it('exits with 1 and the reasons, without a stack trace, when all sources fail', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.status = 404;
    const { code, stderr } = await run(fixture, 'pull', NAME);
    assert.equal(code, 1);
    assert.match(
      stderr,
      /^Could not download .* from any source:\n {2}- hf:owner.*404.*\nTo use a file that you already have/m,
    );
    assert(!stderr.includes('    at '), stderr);
  });

  it('exits with 1, without a stack trace, for a directory', async () => {
    await using fixture = await Fixture.open();
    const { code, stderr } = await run(fixture, 'pull', fixture.home);
    assert.deepEqual([code, stderr], [1, `${fixture.home}: it is a directory\n`]);
  });

  it('exits with 130 on Ctrl-C and resumes later', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.script = [{ stallAfter: 8000 }];
    using child = spawn(process.execPath, [MAIN, 'models', 'pull', NAME], {
      env: { ...process.env, ...envOf(fixture) },
    });
    const output = collectOutput(child);
    const ended = once(child, 'close');
    while (
      !(await stat(`${fixture.file}.part`).then(
        ({ size }) => size === 8000,
        () => false,
      ))
    ) {
      await new Promise(setImmediate);
    }
    child.kill('SIGINT');
    assert.deepEqual(await ended, [130, null]);
    assert.match(output.stderr, /Interrupted\. Run the same command again to resume/);
    assert.equal((await run(fixture, 'pull', NAME)).code, 0);
    assert.equal(fixture.hub.fetches.at(-1)?.range, 'bytes=8000-');
  });
});
