import { isIPv6 } from 'node:net';
import { sql } from 'kysely';
import type { Database } from '../database/database.ts';
import { ServiceError } from '../errors.ts';
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

/**
 * Counts an attempt across all instances. Rejects with a `ServiceError` `too_many_attempts` with the time to
 * wait. Refused attempts do not extend it.
 */
export async function countAttempt(
  database: Database,
  attempt: Attempt,
  source: AttemptSource,
): Promise<void> {
  const now = Date.now();
  for (const [scope, [max, windowMs]] of limitsOf(attempt)) {
    const name = counterName(attempt, scope, source);
    const current = (column: 'count' | 'until') => sql.ref(`attempts.${column}`);
    const row = await database.kysely
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
    // The first attempt of a window also deletes expired counters.
    if (row.count === 1) await database.kysely.deleteFrom('attempts').where('until', '<=', now).execute();
    if (row.count > max) {
      throw new ServiceError('too_many_attempts', 'Too many attempts. Wait before you try again.', {
        retryAfterMs: Math.max(row.until - now, 1),
      });
    }
  }
}

/** Resets the counters of a user after a successful attempt, except the one of the IP address. */
export async function resetAttempts(
  database: Database,
  attempt: Attempt,
  source: AttemptSource,
): Promise<void> {
  const names = limitsOf(attempt).flatMap(([scope]) =>
    scope === 'address' ? [] : [counterName(attempt, scope, source)],
  );
  await database.kysely.deleteFrom('attempts').where('name', 'in', names).execute();
}

function limitsOf(attempt: Attempt): [Scope, readonly [number, number]][] {
  // The type of the table guarantees that the keys are scopes.
  return Object.entries(ATTEMPT_LIMITS[attempt]) as [Scope, readonly [number, number]][];
}

/** Contains a hash, so that the table does not reveal addresses. */
function counterName(attempt: Attempt, scope: Scope, { ip = '', user = '' }: AttemptSource): string {
  const parts = { address: [network(ip)], pair: [network(ip), user], user: [user] };
  return `${attempt}:${scope}:${hashToken(parts[scope].join(' '))}`;
}

/** Returns the /64 network of an IPv6 address, because a client usually controls a whole /64. */
function network(ip: string): string {
  if (!isIPv6(ip) || ip.startsWith('::ffff:')) return ip;
  const [head = '', tail] = ip.split('::');
  const groups = head === '' ? [] : head.split(':');
  const missing = tail === undefined ? 0 : 8 - groups.length - (tail === '' ? 0 : tail.split(':').length);
  return [...groups, ...Array<string>(Math.max(missing, 0)).fill('0'), ...(tail ?? '').split(':')]
    .slice(0, 4)
    .map((group) => Number.parseInt(group || '0', 16).toString(16))
    .join(':');
}
