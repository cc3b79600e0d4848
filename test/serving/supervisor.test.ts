import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { describe, it, type TestContext } from 'node:test';
import type { EngineReport } from '../../src/engine/engine.ts';
import type { EngineState } from '../../src/replicas/replica.ts';
import { Supervisor } from '../../src/serving/supervisor.ts';
import { openLog } from '../../src/support/log.ts';
import { temporaryFolder } from '../harness.ts';
import type { Command, ControlledArgument } from '../engine/controlled-engine.ts';

/** The real timer, which the tests replace with a mock. */
const realTimeout = setTimeout;

const PROGRAM = join(import.meta.dirname, '../engine/controlled-engine.ts');
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
  backend: 'controlled',
};

const CANNOT_START = { event: 'failed', reason: 'no such file', retry: false } as const;

const HEALTHY = { slots: 1, slotsInUse: 0, queued: 0, lastStepAgeMs: null, expectedStepMs: 0 };

/** A supervisor with mock timers and an engine that the test controls. */
class SupervisorTest implements AsyncDisposable {
  readonly supervisor: Supervisor;
  cleanUps = 0;
  readonly #timers: TestContext['mock']['timers'];
  readonly #control: Server;
  readonly #connections: Socket[] = [];
  readonly #lines: string[];
  readonly #resources: AsyncDisposableStack;
  #child: Socket | null = null;

  private constructor(context: TestContext, folder: string, control: Server, owned: AsyncDisposableStack) {
    this.#timers = context.mock.timers;
    this.#timers.enable({ apis: ['setTimeout', 'setInterval'] });
    this.#control = control.on('connection', (socket) => this.#connections.push(socket));
    this.#lines = [];
    const argument: ControlledArgument & Record<string, unknown> = {
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
      name: 'controlled',
      program: PROGRAM,
      argument,
      stallMs: STALL_MS,
      loadStallMs: LOAD_STALL_MS,
      cleanUp: async () => {
        await Promise.resolve(this.cleanUps++);
      },
      log,
    });
    this.#resources = owned;
  }

  static async start(context: TestContext): Promise<SupervisorTest> {
    await using owned = new AsyncDisposableStack();
    const { path } = owned.use(await temporaryFolder());
    const control = owned.adopt(createServer(), (server) => void server.close());
    control.listen(join(path, 'control'));
    await once(control, 'listening');
    const test = new SupervisorTest(context, path, control, owned.move());
    test.supervisor.start();
    return test;
  }

  get state(): EngineState {
    return this.supervisor.state;
  }

  get log(): string {
    return this.#lines.join('');
  }

  /** Resolves when the last started engine waits for commands. */
  async started(): Promise<void> {
    await this.until(() => this.#connections.length > 0);
    this.#child = this.#connections.shift() ?? null;
    this.#child?.on('error', () => {});
  }

  send(command: Command): void {
    this.#child?.write(`${JSON.stringify(command)}\n`);
  }

  report(report: EngineReport): void {
    this.send({ print: JSON.stringify(report) });
  }

  /** Waits for the engine to start, and makes it ready and healthy. */
  async ready(): Promise<void> {
    await this.started();
    this.send({ health: HEALTHY });
    this.report(READY);
    await this.until(() => this.state.state === 'ready');
  }

  /** Lets the engine exit. Returns the delay before the restart, in milliseconds. */
  async crash(): Promise<number> {
    this.send({ exit: 1 });
    return this.down();
  }

  /** Waits for the engine to exit. Returns the delay before the restart, in milliseconds. */
  async down(): Promise<number> {
    await this.until(() => this.state.state === 'down');
    assert(this.state.state === 'down');
    return this.state.retryInMs ?? NaN;
  }

  advance(ms: number): void {
    this.#timers.tick(ms);
  }

  /** Advances the timers by seconds, with a successful health check in each. */
  async advanceHealthy(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      const before = this.supervisor.report.health;
      this.advance(SECOND);
      await this.until(() => this.supervisor.report.health !== before);
    }
  }

  async until(condition: () => boolean): Promise<void> {
    // A loop without a pause would use the CPU that the engine needs to start.
    while (!condition()) await new Promise((resolve) => realTimeout(resolve, 1));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.supervisor[Symbol.asyncDispose]();
    this.#child?.destroy();
    for (const socket of this.#connections) socket.destroy();
    this.#control.close();
    await this.#resources.disposeAsync();
  }
}

/** Crashes the engine several times, each time after `untilCrash`. Returns the delays before the restarts. */
async function restartDelays(
  test: SupervisorTest,
  crashes: number,
  untilCrash: () => Promise<void>,
): Promise<number[]> {
  const delays: number[] = [];
  for (let crash = 0; crash < crashes; crash++) {
    await untilCrash();
    delays.push(await test.crash());
    test.advance(delays.at(-1) ?? 0);
  }
  return delays;
}

const RESTART_DELAYS = [200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 60_000, 60_000];

describe('the process of an engine', () => {
  const limits = process.platform === 'linux' ? readFileSync('/proc/self/limits', 'utf8') : '';
  const skip = !/^Max stack size +\d+ +unlimited/m.test(limits) && 'the stack cannot grow to 64 MiB here';

  it('has a stack of 64 MiB, which tokenizers need for long words', { skip }, async (context) => {
    await using test = await SupervisorTest.start(context);
    await test.started();
    const own = readFileSync(`/proc/${test.supervisor.pid}/limits`, 'utf8');
    assert.match(own, /^Max stack size +67092480 /m);
  });
});

describe('an engine that crashes', { timeout: 300_000 }, () => {
  it('is restarted after delays that grow to a minute', async (context) => {
    await using test = await SupervisorTest.start(context);
    assert.deepEqual(await restartDelays(test, RESTART_DELAYS.length, () => test.started()), RESTART_DELAYS);
    assert.equal(test.supervisor.report.restarts, RESTART_DELAYS.length);
    assert.match(test.log, /"crashes":10,"pauseMs":60000/);
  });

  it('is restarted after the same delays if it was ready for a short time before each crash', async (context) => {
    await using test = await SupervisorTest.start(context);
    const untilCrash = async (): Promise<void> => {
      await test.ready();
      await test.advanceHealthy(4);
    };
    assert.deepEqual(await restartDelays(test, RESTART_DELAYS.length, untilCrash), RESTART_DELAYS);
  });

  it('is restarted after the shortest delay if it was healthy for two minutes', async (context) => {
    await using test = await SupervisorTest.start(context);
    await restartDelays(test, 4, () => test.ready());
    await test.ready();
    await test.advanceHealthy(119);
    assert.equal(await test.crash(), 5000);
    test.advance(5000);
    await test.ready();
    await test.advanceHealthy(120);
    assert.equal(await test.crash(), 200);
  });

  it('is not restarted before the delay has passed', async (context) => {
    await using test = await SupervisorTest.start(context);
    await test.started();
    test.advance((await test.crash()) - 1);
    assert.deepEqual([test.state.state, test.supervisor.pid], ['down', null]);
    test.advance(1);
    assert.equal(test.state.state, 'loading');
    await test.started();
  });

  it('is not restarted if a restart cannot help', async (context) => {
    await using test = await SupervisorTest.start(context);
    await test.started();
    test.report(CANNOT_START);
    await test.crash();
    assert.deepEqual(test.state, { state: 'down', reason: CANNOT_START.reason, retryInMs: null });
  });

  it('is restarted if it was ready before, even after a permanent error', async (context) => {
    await using test = await SupervisorTest.start(context);
    await test.ready();
    test.report(CANNOT_START);
    assert.equal(await test.crash(), 200);
  });
});

describe('an engine that is loading', { timeout: 300_000 }, () => {
  it('is killed and restarted if it makes no progress', async (context) => {
    await using test = await SupervisorTest.start(context);
    await test.started();
    test.advance(LOAD_STALL_MS - SECOND);
    assert.equal(test.state.state, 'loading');
    test.advance(SECOND);
    assert.equal(await test.down(), 200);
    assert.match(test.log, /loading made no progress for 30000 ms/);
    assert.equal(test.cleanUps, 1);
    test.advance(200);
    await test.started();
    assert.equal(await test.crash(), 500);
  });

  it('has no time limit while it makes progress', async (context) => {
    await using test = await SupervisorTest.start(context);
    await test.started();
    for (const fraction of [0.25, 0.5, 0.75, 1]) {
      test.advance(LOAD_STALL_MS - SECOND);
      test.report({ event: 'loading', fraction });
      await test.until(() => test.state.state === 'loading' && test.state.fraction === fraction);
    }
    test.advance(LOAD_STALL_MS - SECOND);
    test.report(READY);
    await test.until(() => test.state.state === 'ready');
    assert.equal(test.supervisor.report.restarts, 0);
  });
});

describe('an engine that is ready', { timeout: 300_000 }, () => {
  it('is killed and restarted if it is busy and makes no step', async (context) => {
    await using test = await SupervisorTest.start(context);
    await test.ready();
    test.send({ health: { ...HEALTHY, lastStepAgeMs: STALL_MS - 1 } });
    await test.advanceHealthy(2);
    assert.equal(test.state.state, 'ready');
    test.send({ health: { ...HEALTHY, lastStepAgeMs: STALL_MS } });
    test.advance(SECOND);
    assert.equal(await test.down(), 200);
    assert.match(test.log, /generation made no progress for 5000 ms/);
  });

  it('is not killed in a step that takes long at its speed, such as the first prompt on a slow machine', async (context) => {
    await using test = await SupervisorTest.start(context);
    await test.ready();
    test.send({ health: { ...HEALTHY, lastStepAgeMs: 60 * SECOND, expectedStepMs: 15 * SECOND } });
    await test.advanceHealthy(2);
    assert.equal(test.state.state, 'ready');
  });
});

it('log lines of an engine keep their level and fields; other output is passed on as text', async (context) => {
  await using test = await SupervisorTest.start(context);
  await test.started();
  test.send({ log: '{"level":"warn","time":1,"message":"careful","package":"cuda"}' });
  test.send({ log: 'GGML_ASSERT failed' });
  await test.until(() => test.log.includes('GGML_ASSERT'));
  assert.match(test.log, /"level":"warn","time":\d+,"engine":"\w+","package":"cuda","message":"careful"/);
  assert.match(test.log, /"level":"info".*"line":"GGML_ASSERT failed","message":"engine output"/);
});

describe('an engine that an operator restarts', { timeout: 300_000 }, () => {
  it('starts again without a delay, and does not count as crashed', async (context) => {
    await using test = await SupervisorTest.start(context);
    await restartDelays(test, 3, () => test.ready());
    await test.ready();
    const { pid } = test.supervisor;
    test.supervisor.restart();
    // A second click changes nothing.
    test.supervisor.restart();
    assert.deepEqual(test.state, { state: 'loading', fraction: 0 });
    await test.ready();
    assert.notEqual(test.supervisor.pid, pid);
    assert.equal(test.supervisor.report.restarts, 4);
    assert.equal(await test.crash(), 200);
  });

  it('is killed if it does not exit within ten seconds', async (context) => {
    await using test = await SupervisorTest.start(context);
    await test.ready();
    test.send({ ignoreTermination: true });
    test.send({ health: { ...HEALTHY, slotsInUse: 1 } });
    while (test.supervisor.report.health?.slotsInUse !== 1) await test.advanceHealthy(1);
    const { pid } = test.supervisor;
    test.supervisor.restart();
    test.advance(9999);
    assert.equal(test.supervisor.pid, pid);
    test.advance(1);
    await test.ready();
    assert.notEqual(test.supervisor.pid, pid);
  });

  it('starts immediately if it is down, even if it could not start before', async (context) => {
    await using test = await SupervisorTest.start(context);
    await test.started();
    test.report(CANNOT_START);
    await test.crash();
    test.supervisor.restart();
    await test.ready();
    await test.crash();
    test.supervisor.restart();
    await test.ready();
    // The restart after the crash was canceled.
    test.advance(60_000);
    assert.equal(test.supervisor.starts, 3);
  });
});

it('a stopped engine has exited and is not restarted', { timeout: 300_000 }, async (context) => {
  await using test = await SupervisorTest.start(context);
  await test.ready();
  const { pid } = test.supervisor;
  assert(pid !== null);
  await test.supervisor[Symbol.asyncDispose]();
  assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
  assert.deepEqual(test.state, { state: 'down', reason: 'stopped', retryInMs: null });
  assert.equal(test.cleanUps, 1);
});
