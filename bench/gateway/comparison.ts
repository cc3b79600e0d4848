import type { Measurement } from './measurements.ts';
import type { BenchProxy } from './peers.ts';
import { threadMicros } from './processes.ts';
import { inTurn, spread } from '../rounds.ts';
import { median } from '../statistics.ts';

/** Warm-up ends when the values of two consecutive rounds differ by less than this share. */
const WARM = 0.03;

export interface Metric {
  title: string;
  unit: string;
  measure: Measurement;
  rounds: number;
  /** Compares with the minimal proxy by difference instead of by ratio. */
  difference?: boolean;
  /** Number of requests or chunks in a round. If set, prints the CPU of each thread per request or chunk. */
  threadsPer?: number;
}

/** Compares proxies with the first one, which is the minimal proxy, or with the one that they name. */
export class Comparison {
  readonly #proxies: readonly BenchProxy[];

  constructor(proxies: readonly BenchProxy[]) {
    this.#proxies = proxies;
  }

  /**
   * Warms up each proxy with rounds of `requests`, until two consecutive rounds differ by less than 3 % or
   * `maxRequests` requests were sent. Prints whether each proxy is warm.
   */
  async warmUp(kind: string, measure: Measurement, requests: number, maxRequests: number): Promise<void> {
    console.log(`warm-up with ${kind}`);
    for (const proxy of this.#proxies) {
      const text = await warmUp(proxy, measure, requests, maxRequests).catch((error) =>
        failureOf(proxy, error),
      );
      console.log(`  ${proxy.name.padEnd(11)} ${text}`);
    }
  }

  /**
   * Measures every proxy in each round. Prints the medians of the values, and of their ratios to the base of the same round with
   * the middle half of the rounds. A peer that fails, such as Portkey when streaming on a recent Node, is reported and skipped.
   */
  async run(metric: Metric): Promise<void> {
    const arms = this.#proxies.map((proxy) => new Arm(proxy));
    await inTurn(arms, metric.rounds, (arm) => arm.measure(metric));
    console.log(`${metric.title}, ${metric.rounds} rounds`);
    for (const arm of arms) {
      const base = arms.find(({ name }) => name === arm.comparedWith) ?? arms[0] ?? arm;
      arm.print(metric, base);
    }
  }
}

/** The results of one proxy for one metric. */
class Arm {
  readonly values: number[] = [];
  readonly #proxy: BenchProxy;
  /** CPU of each thread in each round, in microseconds. */
  readonly #threads = new Map<string, number[]>();
  #failure: string | null = null;

  constructor(proxy: BenchProxy) {
    this.#proxy = proxy;
  }

  get name(): string {
    return this.#proxy.name;
  }

  get comparedWith(): string | undefined {
    return this.#proxy.comparedWith;
  }

  async measure({ measure }: Metric): Promise<void> {
    if (this.#failure !== null) return;
    const before = threadMicros(this.#proxy.server.pid);
    try {
      this.values.push(await measure(this.#proxy));
    } catch (error) {
      this.#failure = failureOf(this.#proxy, error);
      return;
    }
    for (const [name, micros] of threadMicros(this.#proxy.server.pid)) {
      const rounds = this.#threads.get(name) ?? [];
      rounds.push(micros - (before.get(name) ?? 0));
      this.#threads.set(name, rounds);
    }
  }

  print({ unit, difference = false, threadsPer }: Metric, base: Arm): void {
    const relative = this.values.map((value, round) => {
      const other = base.values[round] ?? NaN;
      return difference ? value - other : value / other;
    });
    const value = median(this.values)
      .toFixed(difference ? 2 : 1)
      .padStart(9);
    const to = `${difference ? 'more than' : 'x'} ${base.name}`;
    const text = this === base ? '' : `  ${spread(relative, 2)} ${to}`;
    console.log(`  ${this.#proxy.name.padEnd(11)} ${this.#failure ?? `${value} ${unit}${text}`}`);
    if (threadsPer === undefined || this.#failure !== null) return;
    const count = threadsPer / this.#proxy.requestDivisor;
    const threads = [...this.#threads]
      .map(([name, rounds]) => ({ name, micros: median(rounds) / count }))
      .filter(({ micros }) => micros >= 0.5)
      .sort((a, b) => b.micros - a.micros);
    console.log(`    ${threads.map(({ name, micros }) => `${name} ${micros.toFixed(1)}`).join(', ')}`);
  }
}

/** Returns the number of requests and the difference between the last two rounds. */
async function warmUp(
  proxy: BenchProxy,
  measure: Measurement,
  requests: number,
  maxRequests: number,
): Promise<string> {
  const started = performance.now();
  let previous = await measure(proxy);
  let difference = Infinity;
  let sent = requests;
  while (sent < maxRequests && difference >= WARM) {
    const value = await measure(proxy);
    difference = Math.abs(value - previous) / previous;
    previous = value;
    sent += requests;
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  const state = difference < WARM ? 'warm' : 'not yet steady';
  return `${state} after ${sent / proxy.requestDivisor} requests in ${seconds} s; the last two rounds differ by ${(difference * 100).toFixed(1)} %`;
}

/** Returns the message of a peer's failure. Rethrows failures of Sluice and of the minimal proxy. */
function failureOf({ isPeer }: BenchProxy, error: unknown): string {
  if (!isPeer || !(error instanceof Error)) throw error;
  return error.message;
}
