import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { CATALOG } from '../../src/models/catalog.ts';
import { sha256 } from './fake-hub.ts';
import { Fixture } from './store-fixture.ts';

const MAIN = join(import.meta.dirname, '..', '..', 'src', 'main.ts');
const { NAME, BYTES } = Fixture;

function start(at: Fixture, ...args: readonly string[]) {
  const child = spawn(process.execPath, [MAIN, 'models', ...args], {
    env: { PATH: '', SLUICE_HOME: at.home, HF_ENDPOINT: at.hub.endpoint },
  });
  const said = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.err += text));
  const ended = once(child, 'close').then(([status]: unknown[]) => ({ status, ...said }));
  return { child, said, ended };
}

const run = (at: Fixture, ...args: readonly string[]) => start(at, ...args).ended;

describe('sluice models', () => {
  it('pulls, lists, verifies and removes', async () => {
    await using at = await Fixture.open();
    const pulled = await run(at, 'pull', NAME);
    assert.deepEqual([pulled.status, pulled.out], [0, `${at.file}\n`], pulled.err);
    assert.match(pulled.err, /Downloading tiny\.gguf, 301 kB of 301 kB/);

    const listed = await run(at, 'list', '--json');
    const [model] = JSON.parse(listed.out);
    assert.deepEqual(
      { ...model, pulled_at: typeof model.pulled_at },
      {
        id: null,
        file: at.file,
        files: [at.file],
        size_bytes: BYTES.length,
        sha256: sha256(BYTES),
        source: NAME,
        pulled_at: 'string',
      },
    );
    assert.match((await run(at, 'list')).out, /^ID +SIZE +SOURCE +FILE\n- +30\d kB +hf:owner/);

    const verified = await run(at, 'verify', '--json');
    assert.deepEqual(JSON.parse(verified.out), [{ file: at.file, ok: true, fault: null }]);
    assert.equal((await run(at, 'remove', NAME)).status, 0);
    const nothing = await run(at, 'remove', NAME);
    assert.deepEqual([nothing.status, nothing.err], [1, `${NAME} is not downloaded\n`]);
  });

  it('lists what can be had', async () => {
    await using at = await Fixture.open();
    const { out } = await run(at, 'list', '--available', '--json');
    const ids = JSON.parse(out).map(({ id }: { id: string }) => id);
    assert.deepEqual(
      ids,
      CATALOG.map(({ id }) => id),
    );
  });

  it('ends with 1 and the reasons, without a stack, when there is nothing to be had', async () => {
    await using at = await Fixture.open();
    at.hub.status = 404;
    const { status, err } = await run(at, 'pull', NAME);
    assert.equal(status, 1);
    assert.match(
      err,
      /^Could not download .* from any source:\n {2}- hf:owner.*404.*\nTo use a file that you already have/m,
    );
    assert(!err.includes('    at '), err);
  });

  it('ends with 130 on Ctrl-C and goes on later', async () => {
    await using at = await Fixture.open();
    at.hub.script = [{ stallAfter: 8000 }];
    const pull = start(at, 'pull', NAME);
    using child = pull.child;
    while (
      !(await stat(`${at.file}.part`).then(
        ({ size }) => size === 8000,
        () => false,
      ))
    ) {
      await new Promise(setImmediate);
    }
    child.kill('SIGINT');
    assert.equal((await pull.ended).status, 130);
    assert.match(pull.said.err, /Interrupted\. Run the same command again to resume/);
    assert.equal((await run(at, 'pull', NAME)).status, 0);
    assert.equal(at.hub.fetches.at(-1)?.range, 'bytes=8000-');
  });
});
