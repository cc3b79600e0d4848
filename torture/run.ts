import { setTimeout as pause } from 'node:timers/promises';
import { Books } from './books.ts';
import { call } from './caller.ts';
import { compare, type Difference } from './compare.ts';
import { EMBEDDED_MODEL, LEASE_MS, LIAR_MODEL, REPLICA_MODEL } from './configuration.ts';
import { Faults } from './faults.ts';
import { compareLimits } from './limits.ts';
import { readRollUps, readRows } from './ledger.ts';
import { Random } from './random.ts';
import { differencesOf, recount } from './recount.ts';
import { setStage, type Stage, type StageOptions } from './stage.ts';
import { drawWish, type Menu } from './wish.ts';

const MODELS = [
  { id: EMBEDDED_MODEL, embedded: true },
  { id: REPLICA_MODEL, embedded: false },
  { id: LIAR_MODEL, embedded: false },
] as const;

/** Pause of a caller that reached nobody or was refused, in milliseconds; between two of its requests it is a tenth at most. */
const REST_MS = 300;

/** How long the last rows may take to be settled when all is well again, in milliseconds. */
const LONGEST_SETTLING_MS = 5 * LEASE_MS;

/** How long limits may count what nobody uses any more, in milliseconds: twice the lease of copies in Valkey. */
const LONGEST_RECOUNT_MS = 30_000;

export interface TortureOptions extends StageOptions {
  faults: number;
  /** Callers at once. */
  callers: number;
  seed: number;
  /** No more faults: what has happened is compared. */
  enough: AbortSignal;
  /** Called some times a second. */
  onProgress?: (progress: Progress) => void;
}

/** How far a run is, and what it is made of. */
export interface Progress {
  struck: number;
  /** By kind of fault. */
  faults: ReadonlyMap<string, number>;
  books: Books;
}

export interface Outcome extends Progress {
  rows: number;
  differences: Difference[];
  /** The logs of all processes, where there are differences; null: none are kept. */
  folder: string | null;
}

/** A whole run: a stage, faults and callers at once, then the comparison. Rejects where `stop` ended it. */
export async function torture(options: TortureOptions): Promise<Outcome> {
  const { seed, enough, stop, onProgress = () => {} } = options;
  const random = new Random(seed);
  await using stage = await setStage(options);
  const books = new Books();
  using faults = new Faults(stage, random.fork('faults'), stop, books);
  const progress = () => ({ struck: faults.struck, faults: faults.counts, books });
  const telling = setInterval(() => onProgress(progress()), 250);
  try {
    const curtain = new AbortController();
    const menu = { callers: stage.callers, models: MODELS, copies: stage.copies.length };
    const number = counter();
    const calling = Array.from({ length: options.callers }, (_, index) =>
      keepCalling(
        stage,
        menu,
        books,
        number,
        random.fork(`caller ${index}`),
        AbortSignal.any([curtain.signal, stop]),
      ),
    );
    await faults.strike(options.faults, enough);
    curtain.abort();
    await Promise.all(calling);
    await stage.healthy();
  } finally {
    clearInterval(telling);
  }
  const { rows, differences } = await judge(stage, books);
  differences.unshift(...faults.differences);
  if (differences.length > 0) stage.keepFolder();
  return { ...progress(), rows, differences, folder: differences.length > 0 ? stage.folder : null };
}

/** One caller: a request after another, until the curtain falls. */
async function keepCalling(
  stage: Stage,
  menu: Menu,
  books: Books,
  number: () => number,
  random: Random,
  curtain: AbortSignal,
): Promise<void> {
  while (!curtain.aborted) {
    const wish = drawWish(number(), menu, random);
    const entry = await call(stage.copies[wish.copy]?.url ?? '', wish);
    books.write(entry);
    const { how } = entry.ending;
    const restMs = how === 'unreached' || how === 'refused' ? REST_MS : random.between(0, REST_MS / 10);
    await pause(restMs, undefined, { signal: curtain }).catch(() => {});
  }
}

/** Waits until the ledger is at rest, and compares. */
async function judge(stage: Stage, books: Books): Promise<{ rows: number; differences: Difference[] }> {
  await using database = await stage.openDatabase();
  const deadline = performance.now() + LONGEST_SETTLING_MS;
  let rows = await readRows(database);
  while (rows.some(({ state }) => state === 'open') && performance.now() < deadline) {
    await pause(LEASE_MS / 4);
    rows = await readRows(database);
  }
  // A copy that died holds what it had in flight until the store has missed it for long enough.
  const recounted = performance.now() + LONGEST_RECOUNT_MS;
  let limits = await compareLimits(stage, rows);
  while (limits.length > 0 && performance.now() < recounted) {
    await pause(LEASE_MS / 4);
    limits = await compareLimits(stage, rows);
  }
  const rollUps = differencesOf(await readRollUps(database), recount(rows));
  return {
    rows: rows.length,
    differences: [
      ...compare(books.entries, rows),
      ...limits,
      ...rollUps.map((what): Difference => ({ kind: 'doubled', what })),
    ],
  };
}

function counter(): () => number {
  let count = 0;
  return () => ++count;
}
