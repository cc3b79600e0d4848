import { setTimeout as pause } from 'node:timers/promises';
import type { Entry, Wish } from './books.ts';
import type { Difference } from './compare.ts';
import { wishForLie, type LieOptions } from './lies.ts';
import type { Random } from './random.ts';
import type { Stage } from './stage.ts';

/** One fault on one target. */
export interface Blow {
  stage: Stage;
  /** Of the copy or engine that it hits. */
  index: number;
  /** Resolves when the fault has lasted for long enough. */
  lasts: () => Promise<void>;
  /** Stops these processes for as long as the fault lasts. */
  freeze: (pids: readonly number[]) => Promise<void>;
  random: Random;
  /** An `X-Client-Request-Id` that no other request has. */
  nextId: () => string;
  /** Sends a request of the fault itself and writes it in the books. */
  ask: (wish: Wish) => Promise<Entry>;
  /** Reports what must not have happened, beyond what the ledger shows. */
  report: (difference: Difference) => void;
}

/** How long the response of a healthy replica may take during a fault that concerns other callers, in milliseconds. */
const LONGEST_RESPONSE_MS = 10_000;

/** Pause of the other caller between two requests, in milliseconds. */
const REST_MS = 50;

type Asked = Pick<LieOptions, 'endpoint' | 'streamed' | 'lie' | 'words' | 'wordBytes' | 'spareTokens'>;

/** A request to the lying replica at the copy that a fault hits. */
export function wishOf(blow: Blow, plan: 'hostile' | 'roomy', asked: Asked): Wish {
  const caller = blow.stage.callers.find((each) => each.plan === plan);
  if (caller === undefined) throw new Error(`nobody is on the plan ${plan}`);
  return wishForLie({ id: blow.nextId(), caller, copy: blow.index, ...asked });
}

/**
 * Runs a fault that concerns some callers of a copy only, and checks that another caller gets every response whole
 * meanwhile, within `LONGEST_RESPONSE_MS`.
 */
export async function besideAnother(blow: Blow, strike: () => Promise<void>): Promise<void> {
  const over = new AbortController();
  const read = async (): Promise<void> => {
    do {
      const wish = wishOf(blow, 'roomy', { endpoint: 'chat', streamed: true, lie: 'none', words: 20 });
      const entry = await blow.ask(wish);
      const tookMs = entry.endedAt - entry.sentAt;
      if (entry.ending.how !== 'whole' || tookMs > LONGEST_RESPONSE_MS)
        blow.report({ kind: 'unserved', what: `another caller waited ${tookMs} ms`, entry });
      await pause(REST_MS);
    } while (!over.signal.aborted);
  };
  const reading = read();
  try {
    await strike();
  } finally {
    over.abort();
    await reading;
  }
}
