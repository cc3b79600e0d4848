import { isIPv6 } from 'node:net';
import { sql } from 'kysely';
import type { Database } from '../database/database.ts';
import { ServiceError } from '../errors.ts';
import { hashToken } from './token.ts';

const MINUTE_MS = 60_000;

/**
 * How often something may be tried: most attempts within so many milliseconds from the first of them. `pair` is one
 * address of the network with one person's e-mail address, so that a stranger who guesses keeps others out of his
 * own way only; `person` bounds all strangers together.
 */
const RULES = {
  signIn: {
    address: [60, 15 * MINUTE_MS],
    pair: [10, 15 * MINUTE_MS],
    person: [50, 15 * MINUTE_MS],
  },
  secondFactor: { address: [60, 15 * MINUTE_MS], person: [10, 15 * MINUTE_MS] },
  /** A password asked for once more, of somebody who is signed in. */
  confirm: { person: [10, 15 * MINUTE_MS] },
  setUp: { address: [20, 15 * MINUTE_MS] },
  /** Messages that strangers have sent to somebody. */
  forgotPassword: { address: [20, 60 * MINUTE_MS], person: [5, 60 * MINUTE_MS] },
  provider: { address: [60, 15 * MINUTE_MS] },
  /** The token of a link. */
  link: { address: [60, 15 * MINUTE_MS] },
  invite: { person: [100, 60 * MINUTE_MS] },
} as const satisfies Record<string, Partial<Record<Scope, readonly [most: number, withinMs: number]>>>;

type Scope = 'address' | 'pair' | 'person';

export type Attempt = keyof typeof RULES;

interface By {
  /** The address of the network that it comes from. */
  ip?: string;
  /** Whom it is about: an id, or an e-mail address in lower case. */
  person?: string;
}

/**
 * Counts an attempt, for all copies of the service together. Rejects with a `ServiceError` `too_many_attempts` that
 * says how long to wait; what is refused is counted too, but does not make the wait longer.
 */
export async function countAttempt(database: Database, attempt: Attempt, by: By): Promise<void> {
  const now = Date.now();
  for (const [scope, [most, withinMs]] of rulesOf(attempt)) {
    const name = nameOf(attempt, scope, by);
    const over = (column: 'count' | 'until') => sql.ref(`attempts.${column}`);
    const row = await database.kysely
      .insertInto('attempts')
      .values({ name, count: 1, until: now + withinMs })
      .onConflict((conflict) =>
        conflict.column('name').doUpdateSet({
          count: sql`case when ${over('until')} <= ${now} then 1 else ${over('count')} + 1 end`,
          until: sql`case when ${over('until')} <= ${now} then ${now + withinMs} else ${over('until')} end`,
        }),
      )
      .returning(['count', 'until'])
      .executeTakeFirstOrThrow();
    // Who begins a count sweeps up those that have ended.
    if (row.count === 1) await database.kysely.deleteFrom('attempts').where('until', '<=', now).execute();
    if (row.count > most) {
      throw new ServiceError('too_many_attempts', 'Too many attempts. Wait before you try again.', {
        retryAfterMs: Math.max(row.until - now, 1),
      });
    }
  }
}

/** Forgets what was counted of one person from one address, once they have shown that it was they. */
export async function forgetAttempts(database: Database, attempt: Attempt, by: By): Promise<void> {
  const names = rulesOf(attempt).flatMap(([scope]) =>
    scope === 'address' ? [] : [nameOf(attempt, scope, by)],
  );
  await database.kysely.deleteFrom('attempts').where('name', 'in', names).execute();
}

function rulesOf(attempt: Attempt): [Scope, readonly [number, number]][] {
  // The keys of each rule are scopes, as its type says.
  return Object.entries(RULES[attempt]) as [Scope, readonly [number, number]][];
}

/** Hashed, so that the table tells nobody's address. */
function nameOf(attempt: Attempt, scope: Scope, { ip = '', person = '' }: By): string {
  const parts = { address: [network(ip)], pair: [network(ip), person], person: [person] };
  return `${attempt}:${scope}:${hashToken(parts[scope].join(' '))}`;
}

/** One caller has a whole network of 64 bits in IPv6. */
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
