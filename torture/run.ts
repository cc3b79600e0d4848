import { setTimeout as pause } from 'node:timers/promises';
import { alertsResolved, compareAlerts, compareBackups } from './alerts.ts';
import { CallerLog } from './records.ts';
import { call } from './caller.ts';
import { compare, type Difference } from './compare.ts';
import { EMBEDDED_MODEL, LEASE_MS, FALSE_USAGE_MODEL, REPLICA_MODEL } from './configuration.ts';
import { FaultScheduler } from './fault-scheduler.ts';
import { compareLimits } from './limits.ts';
import { readRollUps, readRows } from './ledger.ts';
import { Random } from '../test/support/random.ts';
import { differencesOf, recount } from './recount.ts';
import { startTestbed, type Testbed, type TestbedOptions } from './testbed.ts';
import { randomRequest, type RequestChoices } from './requests.ts';

const MODELS = [
  { id: EMBEDDED_MODEL, embedded: true },
  { id: REPLICA_MODEL, embedded: false },
  { id: FALSE_USAGE_MODEL, embedded: false },
] as const;

/**
 * Pause of a caller after a failed connection or a refused request, in milliseconds. After other requests, the pause
 * is at most a tenth of this.
 */
const PAUSE_MS = 300;

/** How long the last rows may take to be settled after recovery, in milliseconds. */
const LONGEST_SETTLING_MS = 5 * LEASE_MS;

/** How long limits may count requests of dead instances, in milliseconds: twice the lease of instances in Valkey. */
const LONGEST_RECOUNT_MS = 30_000;

export interface TortureOptions extends TestbedOptions {
  faults: number;
  /** Number of concurrent callers. */
  callers: number;
  seed: number;
  /** Whether to wait until the alerts are resolved after the faults, which takes minutes. */
  waitsForAlerts: boolean;
  /** Ends the faults and starts the comparison. */
  finish: AbortSignal;
  /** Called several times per second. */
  onProgress?: (progress: Progress) => void;
}

export interface Progress {
  injected: number;
  /** Number of faults by name. */
  faults: ReadonlyMap<string, number>;
  callerLog: CallerLog;
}

export interface TortureResult extends Progress {
  rows: number;
  /** Number of messages about alerts that arrived. */
  webhooks: number;
  differences: Difference[];
  /** The directory with the logs of all processes; null: deleted, because there are no differences. */
  folder: string | null;
}

/** Runs faults and callers concurrently, then compares the records with the ledger. Rejects if `stop` is aborted. */
export async function torture(options: TortureOptions): Promise<TortureResult> {
  const { seed, finish, stop, onProgress = () => {} } = options;
  const random = new Random(seed);
  await using testbed = await startTestbed(options);
  const callerLog = new CallerLog();
  using faults = new FaultScheduler(testbed, random.fork('faults'), stop, callerLog);
  const progress = () => ({ injected: faults.injected, faults: faults.counts, callerLog });
  const progressTimer = setInterval(() => onProgress(progress()), 250);
  try {
    const faultsEnded = new AbortController();
    const choices = { callers: testbed.callers, models: MODELS, instances: testbed.instances.length };
    const number = counter();
    const calling = Array.from({ length: options.callers }, (_, index) =>
      keepCalling(
        testbed,
        choices,
        callerLog,
        number,
        random.fork(`caller ${index}`),
        AbortSignal.any([faultsEnded.signal, stop]),
      ),
    );
    await faults.inject(options.faults, finish);
    faultsEnded.abort();
    await Promise.all(calling);
    await testbed.healthy();
  } finally {
    clearInterval(progressTimer);
  }
  const { rows, differences } = await compareAll(testbed, callerLog, options);
  differences.unshift(...faults.differences);
  if (differences.length > 0) testbed.keepFolder();
  const webhooks = testbed.alertReceiver.accepted.length;
  return {
    ...progress(),
    rows,
    webhooks,
    differences,
    folder: differences.length > 0 ? testbed.folder : null,
  };
}

/** Sends one request after another until `end` is aborted. */
async function keepCalling(
  testbed: Testbed,
  choices: RequestChoices,
  callerLog: CallerLog,
  number: () => number,
  random: Random,
  end: AbortSignal,
): Promise<void> {
  while (!end.aborted) {
    const request = randomRequest(number(), choices, random);
    const record = await call(testbed.instances[request.instance]?.url ?? '', request);
    callerLog.add(record);
    const { kind } = record.outcome;
    const pauseMs = kind === 'not-sent' || kind === 'refused' ? PAUSE_MS : random.between(0, PAUSE_MS / 10);
    await pause(pauseMs, undefined, { signal: end }).catch(() => {});
  }
}

/** Waits until all rows are settled, and compares rows, limits, roll-ups, alerts and backups. */
async function compareAll(
  testbed: Testbed,
  callerLog: CallerLog,
  { waitsForAlerts, stop }: Pick<TortureOptions, 'waitsForAlerts' | 'stop'>,
): Promise<{ rows: number; differences: Difference[] }> {
  await using database = await testbed.openDatabase();
  const deadline = performance.now() + LONGEST_SETTLING_MS;
  let rows = await readRows(database);
  while (rows.some(({ state }) => state === 'open') && performance.now() < deadline) {
    await pause(LEASE_MS / 4);
    rows = await readRows(database);
  }
  // The limits store counts the requests of a dead instance until its lease there has expired.
  const limitsDeadline = performance.now() + LONGEST_RECOUNT_MS;
  let limits = await compareLimits(testbed, rows);
  while (limits.length > 0 && performance.now() < limitsDeadline) {
    await pause(LEASE_MS / 4);
    limits = await compareLimits(testbed, rows);
  }
  const rollUps = differencesOf(await readRollUps(database), recount(rows));
  // Last, because it sends requests.
  const open = waitsForAlerts ? await alertsResolved(testbed, database, stop) : [];
  return {
    rows: rows.length,
    differences: [
      ...compare(callerLog.records, rows),
      ...limits,
      ...open,
      ...(await compareAlerts(database, testbed.alertReceiver.accepted)),
      ...(await compareBackups(testbed.backupDirectory)),
      ...rollUps.map((what): Difference => ({ kind: 'doubled', what })),
    ],
  };
}

function counter(): () => number {
  let count = 0;
  return () => ++count;
}
