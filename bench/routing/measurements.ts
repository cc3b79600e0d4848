import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../../test/support/random.ts';
import { cpuMicros } from '../gateway/processes.ts';
import { median, quantile } from '../statistics.ts';
import type { Arm } from './arms.ts';
import { ask, runSessions, startFlood, type Target } from './client.ts';
import { EnginePool } from './engine-pool.ts';
import { sessionsOf, uniqueMessages, type Mix } from './load.ts';

/** One mix on one router. Times are in milliseconds. */
export interface MixResult {
  firstMedianMs: number;
  first99Ms: number;
  totalMs: number;
  /** Share of the prompt tokens that the engines had cached. */
  cachedShare: number;
  /** See `EnginePool.imbalance`. */
  imbalance: number;
  /** CPU time of the router per request, in microseconds. */
  cpuMicros: number;
  requests: number;
  failures: number;
}

/** Runs a mix on a new router in front of new engines. */
export async function measureMix(arm: Arm, mix: Mix, seed: number): Promise<MixResult> {
  await using engines = await EnginePool.start();
  const { server, target } = await arm.start(engines.urls);
  await using _ = server;
  const cpuBefore = cpuMicros(server.pid);
  const { firstMs, totalMs, failures, flooded } = await runSessions(target, sessionsOf(mix, seed), mix.flood);
  return {
    firstMedianMs: median(firstMs),
    first99Ms: quantile(firstMs, 0.99),
    totalMs,
    cachedShare: await engines.cachedShare(),
    imbalance: engines.imbalance,
    cpuMicros: (cpuMicros(server.pid) - cpuBefore) / (firstMs.length + flooded),
    requests: firstMs.length + flooded,
    failures,
  };
}

/** Times to the first text of single requests of one account, in milliseconds. */
export interface FairnessResult {
  idleMs: number;
  /** While another account floods the router. */
  floodedMs: number;
  /** The time from the first to the last text of a request of the flood. */
  residualMs: number;
}

/** Measures how long the requests of one account take while another account floods a new router. */
export async function measureFairness(arm: Arm): Promise<FairnessResult> {
  await using engines = await EnginePool.start();
  const { server, target } = await arm.start(engines.urls);
  await using _ = server;
  const random = new Random(3);
  // The first request of a new router is slower.
  await firstMs(target, random);
  const idleMs = median(await firstTimes(target, random, 8));
  const flood = startFlood(target);
  await sleep(5000);
  const floodedMs = median(await firstTimes(target, random, 8));
  return { idleMs, floodedMs, residualMs: median(await flood.stop()) };
}

async function firstTimes(target: Target, random: Random, count: number): Promise<number[]> {
  const times: number[] = [];
  while (times.length < count) times.push(await firstMs(target, random));
  return times;
}

/** Sends a request of an account that does not flood, with a prompt that is not cached. */
async function firstMs(target: Target, random: Random): Promise<number> {
  return (await ask(target, 1, uniqueMessages(random, 500), 2)).firstMs;
}
