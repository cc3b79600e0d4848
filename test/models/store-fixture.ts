import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Log, LogFields } from '../../src/support/log.ts';
import type { PullProgress } from '../../src/models/progress.ts';
import { PullError } from '../../src/models/errors.ts';
import { ModelStore, type ModelStoreOptions } from '../../src/models/store.ts';
import { dropSettings } from '../support/environment.ts';
import { FakeHub } from './fake-hub.ts';
import { buildGguf, TINY_METADATA } from './gguf-builder.ts';

dropSettings();

/** A data directory and a fake Hub with a file of 300 kB. */
export class Fixture implements AsyncDisposable {
  static readonly NAME = 'hf:owner/repo/tiny.gguf';
  static readonly BYTES = buildGguf({
    metadata: { ...TINY_METADATA, 'general.description': 'x'.repeat(300_000) },
  });
  readonly home: string;
  readonly hub: FakeHub;
  /** Log entries as JSON. */
  readonly logged: string[] = [];
  readonly progress: PullProgress[] = [];

  private constructor(home: string, hub: FakeHub) {
    this.home = home;
    this.hub = hub;
    hub.waitForBytes = async (bytes, isDisconnected) => {
      while (!isDisconnected() && (await this.#partBytes()) < bytes) await new Promise(setImmediate);
    };
  }

  static async open(): Promise<Fixture> {
    const hub = await FakeHub.open();
    hub.files.set('tiny.gguf', Fixture.BYTES);
    return new Fixture(await mkdtemp(join(tmpdir(), 'sluice-models-')), hub);
  }

  /** Creates a store, as in a separate process. */
  store(options: Partial<ModelStoreOptions> = {}): ModelStore {
    const env = { PATH: '', HF_ENDPOINT: this.hub.endpoint, ...options.env };
    return new ModelStore({ home: this.home, log: this.#log(), ...options, env });
  }

  readonly onProgress = (progress: PullProgress): void => {
    this.progress.push(progress);
  };

  /** Path of the file of `NAME`. */
  get file(): string {
    return join(this.home, 'models', 'hub', 'owner', 'repo', 'tiny.gguf');
  }

  /** Names of all files in the models folder, without locks. */
  async names(): Promise<readonly string[]> {
    const entries = await readdir(join(this.home, 'models'), { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile() && !entry.parentPath.endsWith('.locks'))
      .map(({ name }) => name)
      .sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.hub[Symbol.asyncDispose]();
    await rm(this.home, { recursive: true, force: true });
  }

  /** Size of the largest unfinished download. */
  async #partBytes(): Promise<number> {
    const folder = join(this.home, 'models');
    const names = await readdir(folder, { recursive: true });
    const parts = names.filter((name) => name.endsWith('.part'));
    const sizes = await Promise.all(
      parts.map((name) =>
        stat(join(folder, name)).then(
          ({ size }) => size,
          () => Number.POSITIVE_INFINITY,
        ),
      ),
    );
    return Math.max(0, ...sizes);
  }

  #log(): Log {
    const write = (message: string, fields?: LogFields): void => {
      this.logged.push(JSON.stringify({ message, ...fields }));
    };
    const log: Log = { debug: write, info: write, warn: write, error: write, with: () => log };
    return log;
  }
}

/** Asserts that a pull fails with this fault and message. Resolves to the message. */
export async function fails(
  pull: Promise<unknown>,
  message: RegExp,
  fault: PullError['fault'] = 'all_failed',
): Promise<string> {
  let text = '';
  await assert.rejects(pull, (error: unknown) => {
    assert(error instanceof PullError, String(error));
    assert.equal(error.fault, fault, error.message);
    assert.match(error.message, message);
    text = error.message;
    return true;
  });
  return text;
}
