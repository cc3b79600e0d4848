import { setTimeout as pause } from 'node:timers/promises';
import type { FaultContext } from './fault-context.ts';
import type { CallerLog } from './records.ts';
import { call } from './caller.ts';
import type { Difference } from './compare.ts';
import { LEASE_MS } from './configuration.ts';
import { sendSignal } from '../test/support/program.ts';
import type { Random } from '../test/support/random.ts';
import type { Testbed } from './testbed.ts';
import { FAULT_TYPES, type FaultTarget } from './faults.ts';

/** Pause between the starts of two faults, in milliseconds. Many faults last longer, so that faults overlap. */
const GAP_MS = { least: 50, most: 600 };

/**
 * Most faults first wait for some responses, because a service that is down has nothing to lose. The others can start
 * while it is still down.
 */
const RESPONSES = { most: 8, share: 0.75, longestMs: 1500 };

/** Injects faults with random order, targets and durations. */
export class FaultScheduler implements Disposable {
  readonly counts = new Map<string, number>();
  readonly #testbed: Testbed;
  readonly #random: Random;
  readonly #stop: AbortSignal;
  readonly #callerLog: CallerLog;
  #requests = 0;
  /** Errors that faults reported. */
  readonly differences: Difference[] = [];
  readonly #suspended = new Set<number>();
  /** The latest fault of each target; resolves at its end. */
  readonly #running = new Map<string, Promise<void>>();

  constructor(testbed: Testbed, random: Random, stop: AbortSignal, callerLog: CallerLog) {
    this.#testbed = testbed;
    this.#random = random;
    this.#stop = stop;
    this.#callerLog = callerLog;
  }

  get injected(): number {
    return this.counts.values().reduce((sum, count) => sum + count, 0);
  }

  /** Injects this many faults, which can overlap, or fewer if `finish` is aborted. Resolves when all have ended. */
  async inject(count: number, finish: AbortSignal): Promise<void> {
    for (let number = 0; number < count && !finish.aborted; number++) {
      const [gapMs, responses] = [
        this.#random.between(GAP_MS.least, GAP_MS.most),
        this.#random.chance(RESPONSES.share) ? this.#random.between(1, RESPONSES.most) : 0,
      ];
      await this.#pause(gapMs);
      await this.#waitForResponses(responses);
      await this.#startNext();
    }
    await Promise.all(this.#running.values());
  }

  /** Resumes all suspended processes. */
  [Symbol.dispose](): void {
    for (const pid of this.#suspended) sendSignal('SIGCONT', pid);
  }

  /** Waits for this many more responses. */
  async #waitForResponses(count: number): Promise<void> {
    const expected = this.#callerLog.responses + count;
    const deadline = performance.now() + RESPONSES.longestMs;
    while (this.#callerLog.responses < expected && performance.now() < deadline) await this.#pause(20);
  }

  /** Starts the next fault, after the previous one on the same target has ended. */
  async #startNext(): Promise<void> {
    const testbed = this.#testbed;
    const fault = this.#random.weighted(
      FAULT_TYPES.filter(
        ({ target, sqlite = false }) => countOf(target, testbed) > 0 && (!sqlite || testbed.disk !== null),
      ),
    );
    const index = this.#random.between(0, countOf(fault.target, testbed) - 1);
    const durationMs = this.#random.between(...fault.durationMs);
    const target = `${fault.target} ${index}`;
    if (fault.exclusive) {
      await Promise.all(this.#running.values());
      await testbed.healthy();
      // A paused instance notices at its next heartbeat that its lease has expired. It sends three per lease.
      await this.#pause(LEASE_MS / 2);
      await testbed.healthy();
    }
    await this.#running.get(target);
    this.counts.set(fault.name, (this.counts.get(fault.name) ?? 0) + 1);
    const waitDuration = () => this.#pause(durationMs);
    const context: FaultContext = {
      testbed,
      index,
      waitDuration,
      random: this.#random.fork(String(this.injected)),
      suspend: (pids) => this.#suspend(pids, waitDuration),
      nextId: () => `torture-fault-${++this.#requests}`,
      send: async (request) => {
        const record = await call(testbed.instances[request.instance]?.url ?? '', request);
        this.#callerLog.add(record);
        return record;
      },
      report: (difference) => this.differences.push(difference),
    };
    const ended = fault.inject(context);
    // The next fault on this target, or the end of the run, handles the rejection.
    ended.catch(() => {});
    this.#running.set(target, ended);
    if (fault.exclusive) await ended;
  }

  async #suspend(pids: readonly number[], waitDuration: () => Promise<void>): Promise<void> {
    const stopped = pids.filter((pid) => sendSignal('SIGSTOP', pid));
    for (const pid of stopped) this.#suspended.add(pid);
    await waitDuration();
    for (const pid of stopped) {
      sendSignal('SIGCONT', pid);
      this.#suspended.delete(pid);
    }
  }

  async #pause(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#stop });
  }
}

/** Returns the number of targets of a type. */
function countOf(target: FaultTarget, testbed: Testbed): number {
  switch (target) {
    case 'instance':
    case 'embedded':
      return testbed.instances.length;
    case 'engine':
      return testbed.engines.length;
    case 'rows':
      return testbed.disk === null ? 0 : 1;
    case 'disk':
    case 'postgres':
    case 'valkey':
      return testbed[target] === null ? 0 : 1;
  }
}
