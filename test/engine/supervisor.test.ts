import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EngineReport, EngineState } from '../../src/engine/engine.ts';
import { Supervisor } from '../../src/engine/supervisor.ts';
import { openLog } from '../../src/log.ts';
import { temporaryFolder } from '../harness.ts';
import type { Command, DrivenArgument } from './driven-child.ts';

const PROGRAM = join(import.meta.dirname, 'driven-child.ts');
const SECOND = 1000;
const STALL_MS = 5 * SECOND;
const LOAD_STALL_MS = 30 * SECOND;

const READY: EngineReport = {
  event: 'ready',
  description: {
    contextTokens: 100,
    maxCompletionTokens: 100,
    quantization: null,
    tokenizer: null,
    instructType: null,
  },
  slots: 1,
  backend: 'driven',
};

const CANNOT_START = { event: 'failed', reason: 'no such file', retry: false } as const;

const HEALTHY = { slots: 1, slotsInUse: 0, queued: 0, lastStepAgeMs: null, medianStepMs: 0 };

/** A supervisor whose engine does what the test says, and whose timers run when the test says. */
class Stage implements AsyncDisposable {
  readonly supervisor: Supervisor;
  readonly #timers: TestContext['mock']['timers'];
  readonly #control: Server;
  readonly #arrivals: Socket[] = [];
  readonly #lines: string[];
  readonly #resources: AsyncDisposableStack;
  #child: Socket | null = null;

  private constructor(context: TestContext, folder: string, control: Server, owned: AsyncDisposableStack) {
    this.#timers = context.mock.timers;
    this.#timers.enable({ apis: ['setTimeout', 'setInterval'] });
    this.#control = control.on('connection', (socket) => this.#arrivals.push(socket));
    this.#lines = [];
    const argument: DrivenArgument & Record<string, unknown> = {
      socketPath: join(folder, 'engine'),
      controlPath: join(folder, 'control'),
    };
    const destination = new Writable({
      write: (chunk, _encoding, done) => {
        this.#lines.push(String(chunk));
        done();
      },
    });
    const log = openLog('info', destination);
    this.supervisor = new Supervisor({
      name: 'driven',
      program: PROGRAM,
      argument,
      stallMs: STALL_MS,
      loadStallMs: LOAD_STALL_MS,
      log,
    });
    this.#resources = owned;
  }

  static async open(context: TestContext): Promise<Stage> {
    await using owned = new AsyncDisposableStack();
    const { path } = owned.use(await temporaryFolder());
    const control = owned.adopt(createServer(), (server) => void server.close());
    control.listen(join(path, 'control'));
    await once(control, 'listening');
    return new Stage(context, path, control, owned.move());
  }

  get state(): EngineState {
    return this.supervisor.state;
  }

  get log(): string {
    return this.#lines.join('');
  }

  /** Resolves when the engine that was started last waits for commands. */
  async started(): Promise<void> {
    await this.until(() => this.#arrivals.length > 0);
    this.#child = this.#arrivals.shift() ?? null;
    this.#child?.on('error', () => {});
  }

  tell(command: Command): void {
    this.#child?.write(`${JSON.stringify(command)}\n`);
  }

  report(report: EngineReport): void {
    this.tell({ print: JSON.stringify(report) });
  }

  /** Starts the engine, or waits for the one that is being started, until it is ready and healthy. */
  async ready(): Promise<void> {
    await this.started();
    this.tell({ health: HEALTHY });
    this.report(READY);
    await this.until(() => this.state.state === 'ready');
  }

  /** Lets the engine exit, and returns the pause before the next start, in milliseconds. */
  async crash(): Promise<number> {
    this.tell({ exit: 1 });
    return this.down();
  }

  /** Waits for the end of the engine, and returns the pause before the next start, in milliseconds. */
  async down(): Promise<number> {
    await this.until(() => this.state.state === 'down');
    assert(this.state.state === 'down');
    return this.state.retryInMs ?? NaN;
  }

  pass(ms: number): void {
    this.#timers.tick(ms);
  }

  /** Lets seconds pass, in each of which the engine answers that it is healthy. */
  async passHealthy(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      const before = this.supervisor.report.health;
      this.pass(SECOND);
      await this.until(() => this.supervisor.report.health !== before);
    }
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await nextTurn();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.supervisor[Symbol.asyncDispose]();
    this.#child?.destroy();
    for (const socket of this.#arrivals) socket.destroy();
    this.#control.close();
    await this.#resources.disposeAsync();
  }
}

/** Pauses before so many restarts of an engine, each of which `live` brings to its crash. */
async function pausesOf(stage: Stage, crashes: number, live: () => Promise<void>): Promise<number[]> {
  const pauses: number[] = [];
  for (let crash = 0; crash < crashes; crash++) {
    await live();
    pauses.push(await stage.crash());
    stage.pass(pauses.at(-1) ?? 0);
  }
  return pauses;
}

const GROWING = [200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 60_000, 60_000];

describe('an engine that crashes', { timeout: 300_000 }, () => {
  it('is started after pauses that grow to a minute and stay there', async (context) => {
    await using stage = await Stage.open(context);
    stage.supervisor.start();
    assert.deepEqual(await pausesOf(stage, GROWING.length, () => stage.started()), GROWING);
    assert.equal(stage.supervisor.report.restarts, GROWING.length);
    assert.match(stage.log, /"crashes":10,"pauseMs":60000/);
  });

  it('pauses as long when it was ready for a short time before each crash', async (context) => {
    await using stage = await Stage.open(context);
    stage.supervisor.start();
    const live = async (): Promise<void> => {
      await stage.ready();
      await stage.passHealthy(15);
    };
    assert.deepEqual(await pausesOf(stage, GROWING.length, live), GROWING);
  });

  it('is forgiven its crashes once it was healthy for two minutes', async (context) => {
    await using stage = await Stage.open(context);
    stage.supervisor.start();
    await pausesOf(stage, 4, () => stage.ready());
    await stage.ready();
    await stage.passHealthy(119);
    assert.equal(await stage.crash(), 5000);
    stage.pass(5000);
    await stage.ready();
    await stage.passHealthy(120);
    assert.equal(await stage.crash(), 200);
  });

  it('is not started before its pause is over', async (context) => {
    await using stage = await Stage.open(context);
    stage.supervisor.start();
    await stage.started();
    stage.pass((await stage.crash()) - 1);
    assert.deepEqual([stage.state.state, stage.supervisor.pid], ['down', null]);
    stage.pass(1);
    assert.equal(stage.state.state, 'loading');
    await stage.started();
  });

  it('is not started again where that cannot help', async (context) => {
    await using stage = await Stage.open(context);
    stage.supervisor.start();
    await stage.started();
    stage.report(CANNOT_START);
    await stage.crash();
    assert.deepEqual(stage.state, { state: 'down', reason: CANNOT_START.reason, retryInMs: null });
  });

  it('is started again when it was ready before, even where that seems not to help', async (context) => {
    await using stage = await Stage.open(context);
    stage.supervisor.start();
    await stage.ready();
    stage.report(CANNOT_START);
    assert.equal(await stage.crash(), 200);
  });
});

describe('an engine that is loading', { timeout: 300_000 }, () => {
  it('is killed when it makes no progress, which counts as a crash', async (context) => {
    await using stage = await Stage.open(context);
    stage.supervisor.start();
    await stage.started();
    stage.pass(LOAD_STALL_MS - SECOND);
    assert.equal(stage.state.state, 'loading');
    stage.pass(SECOND);
    assert.equal(await stage.down(), 200);
    assert.match(stage.log, /loading made no progress for 30000 ms/);
    stage.pass(200);
    await stage.started();
    assert.equal(await stage.crash(), 500);
  });

  it('may take as long as it likes while it makes progress', async (context) => {
    await using stage = await Stage.open(context);
    stage.supervisor.start();
    await stage.started();
    for (const fraction of [0.25, 0.5, 0.75, 1]) {
      stage.pass(LOAD_STALL_MS - SECOND);
      stage.report({ event: 'loading', fraction });
      await stage.until(() => stage.state.state === 'loading' && stage.state.fraction === fraction);
    }
    stage.pass(LOAD_STALL_MS - SECOND);
    stage.report(READY);
    await stage.until(() => stage.state.state === 'ready');
    assert.equal(stage.supervisor.report.restarts, 0);
  });
});

describe('an engine that is ready', { timeout: 300_000 }, () => {
  it('is killed when it has work and makes no step, and that counts as a crash', async (context) => {
    await using stage = await Stage.open(context);
    stage.supervisor.start();
    await stage.ready();
    stage.tell({ health: { ...HEALTHY, lastStepAgeMs: STALL_MS - 1 } });
    await stage.passHealthy(2);
    assert.equal(stage.state.state, 'ready');
    stage.tell({ health: { ...HEALTHY, lastStepAgeMs: STALL_MS } });
    stage.pass(SECOND);
    assert.equal(await stage.down(), 200);
    assert.match(stage.log, /generation made no progress for 5000 ms/);
  });
});

it('an engine that is stopped is gone, and is not started again', { timeout: 300_000 }, async (context) => {
  await using stage = await Stage.open(context);
  stage.supervisor.start();
  await stage.ready();
  const { pid } = stage.supervisor;
  assert(pid !== null);
  await stage.supervisor[Symbol.asyncDispose]();
  assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
  assert.deepEqual(stage.state, { state: 'down', reason: 'stopped', retryInMs: null });
});
