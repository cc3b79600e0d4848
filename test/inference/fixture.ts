import type { AuthenticatedKey } from '../../src/accounts/keys.ts';
import { openLimitHistory } from '../../src/accounts/ledger/history.ts';
import { openLedger } from '../../src/accounts/ledger/open-ledger.ts';
import { MemoryLimiter } from '../../src/accounts/limits/memory.ts';
import { Plans } from '../../src/accounts/plans.ts';
import { configSchema } from '../../src/config/schema.ts';
import type { PlanLimits } from '../../src/config/plan.ts';
import { openDatabase } from '../../src/database/database.ts';
import type { ReplicaClient } from '../../src/replicas/replica.ts';
import { EMPTY_REPORT } from '../../src/replicas/replica-report.ts';
import { SILENT, type Log } from '../../src/support/log.ts';
import type { QueueLimits } from '../../src/routing/backlog.ts';
import { type BreakerClock, SYSTEM_CLOCK } from '../../src/routing/breaker.ts';
import type { PolicyName } from '../../src/routing/placement.ts';
import type { ReplicaEntry } from '../../src/routing/replica.ts';
import { Router } from '../../src/routing/router.ts';
import { MODEL } from '../engine/requests.ts';
import { PromptHistory } from '../../src/inference/prompt-history.ts';
import type { Accounting } from '../../src/inference/request-accounting.ts';
import { ManualClock, temporaryFolder } from '../harness.ts';

/** Accounting under one plan, with a caller. */
export interface TestAccounting extends Accounting, AsyncDisposable {
  caller: AuthenticatedKey;
  /** Reads the row of a request, with its cost as a bigint; undefined: none. */
  row(id: string): Promise<Row | undefined>;
  /** The requests in flight, as counted by the limiter. */
  inFlight(): Promise<number>;
}

type Row = Awaited<ReturnType<typeof findRow>>;

/** Responses end with the error of their replica. */
export const NO_RECOVERY = { maxAttempts: 0, maxWaitMs: 0 };

/** The caller of all requests. */
export const CALLER: AuthenticatedKey = {
  id: 'key_test',
  accountId: 'default',
  kind: 'caller',
  name: 'test',
  cacheScope: 'scope',
  plan: null,
  accountLimits: null,
  limits: null,
  models: null,
  strict: false,
  expiresAt: Infinity,
  isPrevious: false,
};

export const PRICE = { prompt: 3, completion: 2, inputCacheRead: 1 };

/** Returns a router that serves `MODEL` with these clients; `replica` applies to each. */
export function routerTo(
  clients: readonly ReplicaClient[],
  queue: Partial<QueueLimits> = {},
  { log = SILENT, policy = 'cost', clock = SYSTEM_CLOCK, ...replica }: RouterChanges = {},
): Router {
  const router = new Router({
    queue: { maxRequests: 100, maxWaitMs: 600_000, ...queue },
    routing: { policy },
    retry: { share: 1, minPerMinute: 1000 },
    log,
    clock,
  });
  router.serve(
    { id: MODEL, required: false, price: PRICE, card: () => null },
    clients.map((client) => ({
      client,
      state: () => ({ state: 'ready' }),
      report: () => EMPTY_REPORT,
      capacity: () => null,
      ...replica,
    })),
  );
  return router;
}

interface RouterChanges extends Partial<Pick<ReplicaEntry, 'state' | 'maxInFlight'>> {
  log?: Log;
  policy?: PolicyName;
  clock?: BreakerClock;
}

/** Opens a ledger on SQLite and limits in memory, with one plan. */
export async function openAccounting(
  limits: PlanLimits = { requestsInFlight: 1000 },
): Promise<TestAccounting> {
  await using owned = new AsyncDisposableStack();
  const { path: home } = owned.use(await temporaryFolder());
  const database = owned.use(await openDatabase({ home, url: null, threads: true }));
  const { ledger: settings } = configSchema.parse({});
  const limiter = owned.use(
    new MemoryLimiter({
      history: openLimitHistory(database),
      reservedShare: 0.05,
      clock: new ManualClock(),
    }),
  );
  const ledger = owned.use(
    await openLedger({ database, settings, log: SILENT, onFenced() {}, onReaped() {} }),
  );
  const plans = new Plans({ plans: { test: limits }, defaultPlan: 'test' });
  const resources = owned.move();
  return {
    plans,
    limiter,
    ledger,
    prompts: new PromptHistory(),
    caller: CALLER,
    row: (id) => findRow(database, id),
    async inFlight() {
      const statuses = await limiter.status({
        accountId: CALLER.accountId,
        keyId: CALLER.id,
        keyLimits: null,
        model: '',
        plan: 'test',
        planLimits: limits,
      });
      return statuses.find(({ limit }) => limit === 'requestsInFlight')?.used ?? 0;
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

async function findRow({ kysely }: Awaited<ReturnType<typeof openDatabase>>, id: string) {
  const row = await kysely
    .selectFrom('ledger')
    .select([
      'state',
      'billed',
      'prompt_tokens',
      'cached_tokens',
      'completion_tokens',
      'reasoning_tokens',
      'finish_reason',
      'error_code',
      'usage_source',
    ])
    .select(['attempts', 'continued_after', 'delivered'])
    .select((select) => select.cast<string>('cost_pico', 'text').as('cost'))
    .where('id', '=', id)
    .executeTakeFirst();
  return row && { ...row, cost: BigInt(row.cost) };
}
