import { sql } from 'kysely';
import { networkOf } from '../support/connection-watch.ts';
import type { Database } from '../database/database.ts';
import { ServiceError } from '../core/errors.ts';
import { hashToken } from './token.ts';

const MINUTE_MS = 60_000;

/**
 * Maximum attempts within a window that starts with the first one, by IP address (`address`), by user (`user`), and
 * by both (`pair`). The limit of a pair is the lowest, so that password guessing from one address does not lock out
 * the user at other addresses.
 */
const ATTEMPT_LIMITS = {
  signIn: {
    address: [60, 15 * MINUTE_MS],
    pair: [10, 15 * MINUTE_MS],
    user: [50, 15 * MINUTE_MS],
  },
  secondFactor: { address: [60, 15 * MINUTE_MS], user: [10, 15 * MINUTE_MS] },
  /** The password of a signed-in user, to confirm a change. */
  confirm: { user: [10, 15 * MINUTE_MS] },
  setUp: { address: [20, 15 * MINUTE_MS] },
  /** Password reset emails. */
  forgotPassword: { address: [20, 60 * MINUTE_MS], user: [5, 60 * MINUTE_MS] },
  provider: { address: [60, 15 * MINUTE_MS] },
  /** Tokens of links. */
  link: { address: [60, 15 * MINUTE_MS] },
  invite: { user: [100, 60 * MINUTE_MS] },
} as const satisfies Record<string, Partial<Record<Scope, readonly [max: number, windowMs: number]>>>;

type Scope = 'address' | 'pair' | 'user';

export type Attempt = keyof typeof ATTEMPT_LIMITS;

interface AttemptSource {
  ip?: string;
  /** ID or lowercase email address of the user. */
  user?: string;
}

interface Counter {
  count: number;
  /** When the count restarts; Unix milliseconds. */
  until: number;
}

/** Maximum counters in memory, which is about 20 MB. */
const MAX_COUNTERS = 100_000;
/** Number of the oldest counters of which one makes room for a new one. */
const EVICTION_CANDIDATES = 100;

/**
 * Counts attempts and refuses those over the limits. Anyone can make attempts, so refused ones cost only a lookup in
 * memory, and on SQLite, where a write blocks the event loop, counters are never written: there is only one instance.
 * On PostgreSQL, instances share them.
 */
export class Attempts {
  readonly #database: Database;
  readonly #now: () => number;
  readonly #maxCounters: number;
  /** Counters by name, least recently counted first. On PostgreSQL, as this instance last read them. */
  readonly #counters = new Map<string, Counter>();

  /** `now` returns Unix milliseconds. */
  constructor(
    database: Database,
    { now = Date.now, maxCounters = MAX_COUNTERS }: { now?: () => number; maxCounters?: number } = {},
  ) {
    this.#database = database;
    this.#now = now;
    this.#maxCounters = maxCounters;
  }

  /** The number of counters in memory. */
  get size(): number {
    return this.#counters.size;
  }

  /**
   * Counts an attempt. Rejects with a `ServiceError` `too_many_attempts` with the time to wait. Refused attempts do not
   * extend it.
   */
  async count(attempt: Attempt, source: AttemptSource): Promise<void> {
    const now = this.#now();
    const limits = limitsOf(attempt).map(([scope, [max, windowMs]]) => ({
      name: counterName(attempt, scope, source),
      max,
      windowMs,
    }));
    for (const { name, max } of limits) {
      const { count, until } = this.#current(name, now);
      if (count >= max) throw tooManyAttempts(until - now);
    }
    for (const { name, max, windowMs } of limits) {
      const counter =
        this.#database.location.kind === 'sqlite'
          ? this.#add(name, now, windowMs)
          : await addInDatabase(this.#database, name, now, windowMs);
      this.#remember(name, counter, now);
      if (counter.count > max) throw tooManyAttempts(counter.until - now);
    }
  }

  /** Resets the counters of a user after a successful attempt, except the one of the IP address. */
  async reset(attempt: Attempt, source: AttemptSource): Promise<void> {
    const names = limitsOf(attempt).flatMap(([scope]) =>
      scope === 'address' ? [] : [counterName(attempt, scope, source)],
    );
    for (const name of names) this.#counters.delete(name);
    if (this.#database.location.kind === 'sqlite') return;
    await this.#database.kysely.deleteFrom('attempts').where('name', 'in', names).execute();
  }

  #current(name: string, now: number): Counter {
    const counter = this.#counters.get(name);
    return counter === undefined || counter.until <= now ? { count: 0, until: now } : counter;
  }

  #add(name: string, now: number, windowMs: number): Counter {
    const { count, until } = this.#current(name, now);
    return { count: count + 1, until: count === 0 ? now + windowMs : until };
  }

  #remember(name: string, counter: Counter, now: number): void {
    const known = this.#counters.get(name);
    // Results of concurrent attempts can arrive out of order.
    if (known !== undefined && known.until >= counter.until && known.count >= counter.count) return;
    this.#counters.delete(name);
    if (this.#counters.size >= this.#maxCounters) this.#evict(now);
    this.#counters.set(name, counter);
  }

  /** Deletes the counter with the fewest attempts of the oldest ones, so that a flood does not clear a used-up one. */
  #evict(now: number): void {
    const candidates = this.#counters.entries().take(EVICTION_CANDIDATES);
    const attemptsOf = ({ count, until }: Counter) => (until <= now ? 0 : count);
    const fewest = candidates.reduce((a, b) => (attemptsOf(b[1]) < attemptsOf(a[1]) ? b : a));
    this.#counters.delete(fewest[0]);
  }
}

async function addInDatabase(
  { kysely }: Database,
  name: string,
  now: number,
  windowMs: number,
): Promise<Counter> {
  const current = (column: 'count' | 'until') => sql.ref(`attempts.${column}`);
  return await kysely
    .insertInto('attempts')
    .values({ name, count: 1, until: now + windowMs })
    .onConflict((conflict) =>
      conflict.column('name').doUpdateSet({
        count: sql`case when ${current('until')} <= ${now} then 1 else ${current('count')} + 1 end`,
        until: sql`case when ${current('until')} <= ${now} then ${now + windowMs} else ${current('until')} end`,
      }),
    )
    .returning(['count', 'until'])
    .executeTakeFirstOrThrow();
}

function tooManyAttempts(waitMs: number): ServiceError {
  return new ServiceError('too_many_attempts', 'Too many attempts. Wait before you try again.', {
    retryAfterMs: Math.max(waitMs, 1),
  });
}

function limitsOf(attempt: Attempt): [Scope, readonly [number, number]][] {
  // The type of the table guarantees that the keys are scopes.
  return Object.entries(ATTEMPT_LIMITS[attempt]) as [Scope, readonly [number, number]][];
}

/** Contains a hash, so that the table does not reveal addresses. */
function counterName(attempt: Attempt, scope: Scope, { ip = '', user = '' }: AttemptSource): string {
  const parts = { address: [networkOf(ip)], pair: [networkOf(ip), user], user: [user] };
  return `${attempt}:${scope}:${hashToken(parts[scope].join(' '))}`;
}
