import { setTimeout as pause } from 'node:timers/promises';
import type { RequestRecord, TortureRequest } from './records.ts';
import type { Difference } from './compare.ts';
import { falseUsageRequest, type FalseUsageOptions } from './false-usage.ts';
import type { Random } from '../test/support/random.ts';
import type { Testbed } from './testbed.ts';

/** A fault on one target. */
export interface FaultContext {
  testbed: Testbed;
  /** Index of the affected instance or engine. */
  index: number;
  /** Waits for the duration of the fault. */
  waitDuration: () => Promise<void>;
  /** Suspends these processes for the duration of the fault. */
  suspend: (pids: readonly number[]) => Promise<void>;
  random: Random;
  /** Returns a unique `X-Client-Request-Id`. */
  nextId: () => string;
  /** Sends and records a request. */
  send: (request: TortureRequest) => Promise<RequestRecord>;
  /** Reports an error that the comparison with the ledger cannot find. */
  report: (difference: Difference) => void;
}

/** Maximum duration of another caller's request during the fault, in milliseconds. */
const LONGEST_RESPONSE_MS = 10_000;

/** Pause of the other caller between two requests, in milliseconds. */
const PAUSE_MS = 50;

/** Returns a request for the replica with false usage, from the account on this plan, to the affected instance. */
export function replicaRequest(
  context: FaultContext,
  plan: 'hostile' | 'roomy',
  options: Omit<FalseUsageOptions, 'id' | 'caller' | 'instance'>,
): TortureRequest {
  const caller = context.testbed.callers.find((each) => each.plan === plan);
  if (caller === undefined) throw new Error(`there is no account on the plan ${plan}`);
  return falseUsageRequest({ id: context.nextId(), caller, instance: context.index, ...options });
}

/**
 * Injects a fault that affects only some callers of an instance, and checks that another caller gets complete
 * responses within `LONGEST_RESPONSE_MS` during the fault.
 */
export async function whileServingOthers(context: FaultContext, inject: () => Promise<void>): Promise<void> {
  const ended = new AbortController();
  const read = async (): Promise<void> => {
    do {
      const request = replicaRequest(context, 'roomy', {
        endpoint: 'chat',
        streamed: true,
        usage: 'correct',
        words: 20,
      });
      const record = await context.send(request);
      const tookMs = record.endedAt - record.sentAt;
      if (record.outcome.kind !== 'complete' || tookMs > LONGEST_RESPONSE_MS)
        context.report({ kind: 'unserved', what: `another caller waited ${tookMs} ms`, record });
      await pause(PAUSE_MS);
    } while (!ended.signal.aborted);
  };
  const reading = read();
  try {
    await inject();
  } finally {
    ended.abort();
    await reading;
  }
}
