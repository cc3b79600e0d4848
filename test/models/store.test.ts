import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, copyFile, mkdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { CATALOG, findModel } from '../../src/models/catalog.ts';
import { ModelFileError, PullError } from '../../src/models/errors.ts';
import { describeSource, parseSource, SourceError } from '../../src/models/source.ts';
import { buildGguf } from './gguf-builder.ts';
import { Fixture } from './store-fixture.ts';

const { NAME, BYTES } = Fixture;

describe('the models folder', () => {
  it('lists complete downloads', async () => {
    await using fixture = await Fixture.open();
    const store = fixture.store();
    assert.deepEqual(await store.list(), []);
    const pulled = await store.pull(NAME);
    await writeFile(join(dirname(fixture.file), 'other.gguf.part'), 'x');
    assert.deepEqual(await store.list(), [pulled]);
    await truncate(fixture.file, 100);
    assert.deepEqual(await store.list(), []);
    assert.equal(await store.resolve('any/id', NAME), null);
  });

  it('accepts a model file that was copied into it', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.status = 404;
    await mkdir(dirname(fixture.file), { recursive: true });
    await writeFile(fixture.file, buildGguf({ cutBytes: 60 }));
    await assert.rejects(fixture.store().pull(NAME), PullError);
    await writeFile(fixture.file, BYTES);
    const model = await fixture.store().pull(NAME);
    assert.deepEqual([model.source, model.file], ['added manually', fixture.file]);
  });

  it('detects changed and missing files', async () => {
    await using fixture = await Fixture.open();
    const store = fixture.store();
    await store.pull(NAME);
    assert.deepEqual(await store.verify(null, { onProgress: fixture.onProgress }), [
      { file: fixture.file, fault: null },
    ]);
    assert(
      fixture.progress.some(
        ({ phase, receivedBytes }) => phase === 'checking' && receivedBytes === BYTES.length,
      ),
    );
    const bytes = Buffer.from(BYTES);
    bytes[bytes.length - 1] = 1;
    await writeFile(fixture.file, bytes);
    assert.match((await store.verify(NAME))[0]?.fault ?? '', /the SHA-256 is [0-9a-f]{64}, expected/);
    await appendFile(fixture.file, 'x');
    assert.match((await store.verify(NAME))[0]?.fault ?? '', /the size is \d+ bytes, expected/);
    assert.match((await store.verify('hf:o/r/none.gguf'))[0]?.fault ?? '', /no download record/);
  });

  it('removes a model, its unfinished download and empty folders', async () => {
    await using fixture = await Fixture.open();
    const store = fixture.store();
    await store.pull(NAME);
    await writeFile(`${fixture.file}.part`, 'x');
    assert.deepEqual(await store.remove(NAME), [fixture.file]);
    await assert.rejects(stat(join(fixture.home, 'models', 'hub')), { code: 'ENOENT' });
    await assert.rejects(store.remove(NAME), { fault: 'not_downloaded' });
  });

  it('does not remove files outside it', async () => {
    await using fixture = await Fixture.open();
    const path = join(fixture.home, 'mine.gguf');
    await writeFile(path, BYTES);
    await assert.rejects(fixture.store().remove(path), {
      fault: 'not_downloaded',
      message: /was not removed/,
    });
    assert.equal((await stat(path)).size, BYTES.length);
  });

  it('does not remove a file during its download', async () => {
    await using fixture = await Fixture.open();
    const gate = Promise.withResolvers<void>();
    fixture.hub.script = [{ cutAfter: 1000 }, { waitFor: gate.promise }];
    const store = fixture.store();
    const started = Promise.withResolvers<void>();
    const pull = store.pull(NAME, {
      onProgress: ({ receivedBytes }) => receivedBytes > 0 && started.resolve(),
    });
    await started.promise;
    await assert.rejects(store.remove(NAME), { fault: 'busy' });
    gate.resolve();
    await pull;
  });
});

describe('a name', () => {
  it('may be the path of a file, which is checked', async () => {
    await using fixture = await Fixture.open();
    const store = fixture.store({ baseFolder: fixture.home });
    await writeFile(join(fixture.home, 'mine.gguf'), BYTES);
    assert.equal(await store.resolve('any/id', 'mine.gguf'), join(fixture.home, 'mine.gguf'));
    assert.equal((await store.pull('./mine.gguf')).file, join(fixture.home, 'mine.gguf'));
    await truncate(join(fixture.home, 'mine.gguf'), 200);
    await assert.rejects(store.resolve('any/id', 'mine.gguf'), ModelFileError);
    await assert.rejects(store.pull('none.gguf'), { fault: 'missing', message: /no such file/ });
  });

  it('that is neither an ID in the catalog nor a source is an error with the accepted forms', async () => {
    await using fixture = await Fixture.open();
    await assert.rejects(fixture.store().pull('Qwen/Unknown'), {
      fault: 'unknown_model',
      message: /--available.*hf:owner/,
    });
    await assert.rejects(fixture.store().resolve('Qwen/Unknown'), { fault: 'unknown_model' });
    await assert.rejects(fixture.store().pull('nothing'), { fault: 'unknown_model' });
    await assert.rejects(fixture.store().pull('ftp://host/model.gguf'), SourceError);
  });

  it('that no longer is a model, as an added one of an earlier version, has no file to delete', async () => {
    await using fixture = await Fixture.open();
    for (const name of ['Qwen/Unknown', 'other:{}']) assert.equal(fixture.store().managedPath(name), null);
  });
});

describe('the catalog', () => {
  it('has unique IDs, and sources in text form', () => {
    assert.equal(new Set(CATALOG.map(({ id }) => id)).size, CATALOG.length);
    for (const model of CATALOG) {
      const [source] = model.sources;
      assert.deepEqual(parseSource(describeSource(source)), source);
      assert.match(model.id, /^[\w.-]+\/[\w.-]+$/);
      assert.equal(findModel(model.id), model);
      assert(model.embedding !== null || model.sampling.temperature !== undefined, model.id);
    }
  });

  it('has the size and the SHA-256 of the default model', () => {
    const model = findModel('HuggingFaceTB/SmolLM2-135M-Instruct');
    assert.equal(model?.sizeBytes, 98_362_432);
    assert.match(model?.sha256 ?? '', /^[0-9a-f]{64}$/);
    assert.deepEqual(
      model?.sources.map(({ kind }) => kind),
      ['hub', 'pip'],
    );
  });
});

describe('a process that pulls', () => {
  it('releases its lock when killed, and another process resumes the download', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.script = [{ stallAfter: 9000 }];
    using child = spawn(process.execPath, [join(import.meta.dirname, 'pull-child.ts'), fixture.home, NAME], {
      env: { ...process.env, HF_ENDPOINT: fixture.hub.endpoint },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
    while (!output.includes('9000\n')) await once(child.stdout, 'data');
    const waiting = Promise.withResolvers<void>();
    const pull = fixture.store().pull(NAME, {
      onProgress: ({ phase, receivedBytes }) =>
        phase === 'waiting' && receivedBytes === 9000 && waiting.resolve(),
    });
    await waiting.promise;
    child.kill('SIGKILL');
    await once(child, 'close');
    await pull;
    assert.deepEqual(await readFile(fixture.file), BYTES);
    assert.deepEqual(
      fixture.hub.fetches.map(({ range }) => range),
      [null, 'bytes=9000-'],
    );
  });
});

describe(
  'a real model',
  { skip: process.env['SLUICE_TEST_MODEL'] === undefined && 'no model file (SLUICE_TEST_MODEL)' },
  () => {
    it('that is added manually is identified by its SHA-256', async () => {
      await using fixture = await Fixture.open();
      const id = 'HuggingFaceTB/SmolLM2-135M-Instruct';
      const store = fixture.store({ env: { HF_ENDPOINT: 'http://127.0.0.1:9', PATH: '' } });
      let path = '';
      await assert.rejects(store.pull(id), (error: Error) => {
        path = /copy it to (.*), or/.exec(error.message)?.[1] ?? '';
        return true;
      });
      await mkdir(dirname(path), { recursive: true });
      await copyFile(process.env['SLUICE_TEST_MODEL'] ?? '', path);
      const model = await store.pull(id);
      assert.deepEqual([model.id, model.file, model.sha256], [id, path, findModel(id)?.sha256]);
      assert.equal(await store.resolve(id), path);
    });
  },
);
