/**
 * Seeds weeks of realistic data for the console: accounts, users, keys in every state, requests with daily and weekly
 * patterns, and an audit log. Deterministic, relative to the current time.
 */
import { hash } from 'node:crypto';
import type { Insertable } from 'kysely';
import { DAY_MS } from '../../src/accounts/ledger/days.ts';
import { openStore } from '../../src/accounts/ledger/open-ledger.ts';
import type { LedgerStore } from '../../src/accounts/ledger/store.ts';
import {
  checkpointValues,
  endedValues,
  openedValues,
  priceOf,
  settledValues,
  type Batch,
} from '../../src/accounts/ledger/write.ts';
import type { Database } from '../../src/database/database.ts';
import { DEFAULT_ACCOUNT_ID, type Schema } from '../../src/database/schema.ts';
import { Random } from '../support/random.ts';
import { SEED_ALERTS, SEED_ALERT_SETTINGS } from './seed-alerts.ts';
import { SEED_ACCOUNTS, SEED_KEYS, SEED_USERS, type SeedKey } from './seed-accounts.ts';
import { traffic, uuidAt, type SeedRequest, type Source } from './traffic.ts';

/** Days of seeded requests: a month and the previous one. */
const SEED_DAYS = 60;

export interface SeedOptions {
  /** Approximate number of requests. */
  requests?: number;
  /** The first operator, who owns the default account and made most changes. */
  operatorId?: string;
}

/**
 * Fills a migrated SQLite database. Writes the ledger as an instance does, so that its roll-ups match its rows.
 * Resolves with the number of requests.
 */
export async function seed(
  database: Database,
  { requests = 56_000, operatorId = 'user_operator' }: SeedOptions = {},
): Promise<number> {
  if (database.location.kind !== 'sqlite') throw new TypeError('only SQLite databases can be seeded');
  const now = Date.now();
  const random = new Random(20);
  await seedAccounts(database, now);
  await seedUsers(database, now);
  await seedKeys(database, random.fork('keys'), now);
  await seedAudit(database, random.fork('audit'), operatorId, now);
  await seedRefusals(database, now);
  await seedAlerts(database, random.fork('alerts'), now);
  await using store = await openStore(database);
  return await seedLedger(store, random.fork('traffic'), requests, now);
}

/** Alerts that fire and that are resolved, with messages in every state. */
async function seedAlerts({ kysely }: Database, random: Random, now: number): Promise<void> {
  for (const { condition, minutesAgo, minutes, states, ...texts } of SEED_ALERTS) {
    const firedAt = now - minutesAgo * 60_000;
    const id = uuidAt(random, firedAt);
    await kysely
      .insertInto('alerts')
      .values({
        ...texts,
        id,
        dedupe_key: condition,
        condition,
        type: condition.split(':', 1)[0] ?? '',
        fired_at: firedAt,
        // The service would resolve an alert that no instance sees.
        seen_at: now + DAY_MS,
        resolved_at: minutes === null ? null : firedAt + minutes * 60_000,
      })
      .execute();
    for (const [channel, [state, error]] of states.entries()) {
      await kysely
        .insertInto('alert_messages')
        .values({
          id: uuidAt(random, firedAt),
          alert_id: id,
          event: 'firing',
          channel: `webhook:${SEED_ALERT_SETTINGS.webhooks[channel]?.name}`,
          state,
          attempts: state === 'silenced' ? 0 : error === null ? 1 : 3,
          created_at: firedAt,
          next_at: now + DAY_MS,
          sent_at: state === 'sent' ? firedAt + 1200 : null,
          error,
        })
        .execute();
    }
  }
}

async function seedAccounts({ kysely }: Database, now: number): Promise<void> {
  for (const { id, name, plan, status, daysAgo } of SEED_ACCOUNTS) {
    const created_at = now - daysAgo * DAY_MS;
    const row = { id, name, plan, status, created_at };
    const changed = { name, plan, status };
    const insert = kysely.insertInto('accounts').values(row);
    await insert.onConflict((conflict) => conflict.column('id').doUpdateSet(changed)).execute();
  }
}

/** Refusals: error code, parameter, message, number of requests, and minutes before now. The first three have no valid key. */
const REFUSALS = [
  [
    'invalid_api_key',
    '',
    'The API key is not valid: it is mistyped, revoked or expired, or its account is not active. Send a valid one as `Authorization: Bearer sk-sluice-…`.',
    418,
    2,
  ],
  ['unknown_url', '', 'Unknown endpoint: POST /chat/completions.', 36, 55],
  ['headers_too_large', '', 'The headers of the request are too large.', 3, 700],
  ['tokens_per_minute', '', 'Rate limit reached: 60,000 tokens per minute. Try again in 12 s.', 1240, 1],
  [
    'model_not_found',
    'model',
    'The model `gpt-4o` does not exist. Available models: `acme/support-8b`.',
    57,
    14,
  ],
  ['invalid_value', 'messages[].content', '`messages[3].content` must not be empty.', 8, 120],
  [
    'unsupported_parameter',
    'logit_bias',
    '`logit_bias` is not supported by the engine of this model.',
    2,
    300,
  ],
] as const;

async function seedRefusals({ kysely }: Database, now: number): Promise<void> {
  const keys = await kysely
    .selectFrom('keys')
    .select(['id', 'account_id'])
    .where('purpose', '=', 'api')
    .execute();
  const rows = REFUSALS.map(([code, param, message, count, minutesAgo], index) => {
    const key = index < 3 ? undefined : keys[index % keys.length];
    const last_at = now - minutesAgo * 60_000;
    const minute = Math.floor(last_at / 60_000);
    return {
      minute,
      account_id: key?.account_id ?? '',
      key_id: key?.id ?? '',
      code,
      param,
      count,
      last_at,
      message,
    };
  });
  await kysely.insertInto('refusals').values(rows).execute();
}

async function seedUsers({ kysely }: Database, now: number): Promise<void> {
  for (const [index, { name, email, accounts }] of SEED_USERS.entries()) {
    const created_at = now - (70 - 5 * index) * DAY_MS;
    const user_id = userId(index);
    await kysely
      .insertInto('users')
      .values({ id: user_id, name, email, created_at, updated_at: created_at, email_verified: 1 })
      .execute();
    for (const [account_id, role] of Object.entries(accounts)) {
      await kysely.insertInto('memberships').values({ account_id, user_id, role, created_at }).execute();
    }
  }
}

/** Returns the id of the user at this index. */
function userId(index: number): string {
  return `user_${hash('sha256', `user ${index}`).slice(0, 24)}`;
}

type KeyRow = Insertable<Schema['keys']>;

async function seedKeys({ kysely }: Database, random: Random, now: number): Promise<void> {
  await kysely
    .insertInto('keys')
    .values(SEED_KEYS.map((key) => keyRow(random, key, now)))
    .execute();
}

function keyRow(random: Random, key: SeedKey, now: number): KeyRow {
  const at = (daysAgo: number | undefined) =>
    daysAgo === undefined ? null : Math.round(now - daysAgo * DAY_MS);
  const letters = () => random.between(36 ** 3, 36 ** 4 - 1).toString(36);
  const members = SEED_USERS.flatMap(({ accounts }, index) => (key.account in accounts ? [index] : []));
  const author = members[key.name.length % members.length];
  return {
    id: keyId(key),
    created_by: author === undefined ? null : `user:${userId(author)}`,
    account_id: key.account,
    kind: key.kind ?? 'caller',
    name: key.name,
    hash: hash('sha256', keyId(key)),
    prefix: `sk-sluice-${letters()}`,
    last_four: letters(),
    created_at: now - key.daysAgo * DAY_MS,
    expires_at: at(key.expiresDaysAgo),
    revoked_at: at(key.revokedDaysAgo),
    last_used_at: key.usedDaysAgo === undefined ? null : Math.round(now - key.usedDaysAgo * DAY_MS),
    last_used_ip: key.usedDaysAgo === undefined ? null : (key.ip ?? '203.0.113.24'),
    last_used_client: key.usedDaysAgo === undefined ? null : (key.clients?.[0] ?? null),
    allowed_models: key.models === undefined ? null : JSON.stringify(key.models),
    tags: key.tags === undefined ? null : JSON.stringify(key.tags),
    limits: key.limits === undefined ? null : JSON.stringify(key.limits),
  };
}

function keyId({ account, name }: Pick<SeedKey, 'account' | 'name'>): string {
  return `key_${hash('sha256', `${account} ${name}`).slice(0, 24)}`;
}

/** Adds many keys to the default account. */
export async function seedManyKeys({ kysely }: Database, count: number): Promise<void> {
  const random = new Random(21);
  const now = Date.now();
  const rows = Array.from({ length: count }, (_, index) => {
    const daysAgo = 1 + (60 * (count - index)) / count;
    const name = `tenant-${String(index + 1).padStart(5, '0')}`;
    return keyRow(
      random,
      { account: DEFAULT_ACCOUNT_ID, name, daysAgo, usedDaysAgo: daysAgo * random.fraction() },
      now,
    );
  });
  for (let start = 0; start < rows.length; start += CHUNK) {
    await kysely
      .insertInto('keys')
      .values(rows.slice(start, start + CHUNK))
      .execute();
  }
}

/** Adds audit log entries for all seeded data. */
async function seedAudit(
  { kysely }: Database,
  random: Random,
  operatorId: string,
  now: number,
): Promise<void> {
  const operator = `user:${operatorId}`;
  const plan = SEED_ACCOUNTS.map(({ plan: to }) => ({ from: null, to }));
  const entries = [
    ...SEED_ACCOUNTS.flatMap(({ id, name, daysAgo, status }, index) => [
      {
        daysAgo,
        action: 'account.create',
        subject: `account:${id}`,
        account: id,
        detail: { name, plan: null },
      },
      {
        daysAgo: daysAgo - 0.01,
        action: 'account.set_plan',
        subject: `account:${id}`,
        account: id,
        detail: plan[index],
      },
      ...(status === 'active'
        ? []
        : [
            {
              daysAgo: 3.2,
              action: status === 'closed' ? 'account.close' : 'account.suspend',
              subject: `account:${id}`,
              account: id,
              detail: { from: 'active', to: status },
            },
          ]),
    ]),
    ...SEED_USERS.flatMap(({ accounts }, index) =>
      Object.entries(accounts).map(([account, role]) => ({
        daysAgo: 70 - 5 * index,
        action: 'member.set',
        subject: `user:${userId(index)}`,
        account,
        detail: { role },
      })),
    ),
    ...SEED_KEYS.flatMap((key) => {
      const entry = { subject: `key:${keyId(key)}`, account: key.account, detail: {} };
      const created = {
        ...entry,
        daysAgo: key.daysAgo,
        action: 'key.create',
        detail: { kind: key.kind ?? 'caller' },
      };
      const { revokedDaysAgo } = key;
      return revokedDaysAgo === undefined
        ? [created]
        : [created, { ...entry, daysAgo: revokedDaysAgo, action: 'key.revoke' }];
    }),
  ];
  const ofPlayground = Array.from({ length: 5 }, (_, index) => ({
    daysAgo: 0.2 + index / 100,
    action: index === 1 ? 'key.revoke' : 'key.create',
    subject: `key:key_${hash('sha256', `playground ${index}`).slice(0, 24)}`,
    account: SEED_ACCOUNTS[0]?.id ?? DEFAULT_ACCOUNT_ID,
    detail: { purpose: 'playground' },
  }));
  const actors = entries.map(() => (random.chance(0.8) ? operator : 'cli:ops'));
  const rows = [...entries, ...ofPlayground].map(({ daysAgo, action, subject, account, detail }, index) => {
    const at = Math.round(now - daysAgo * DAY_MS);
    const actor = actors[index] ?? operator;
    return {
      id: uuidAt(random, at),
      at,
      actor,
      ip: actor === operator ? '198.51.100.7' : null,
      action,
      subject,
      account_id: account,
      detail: JSON.stringify(detail),
    };
  });
  await kysely.insertInto('audit').values(rows).execute();
}

/** Rows per statement or batch. */
const CHUNK = 1000;

/** Lease of the seeding instance, in milliseconds. */
const LEASE_MS = 120_000;

async function seedLedger(store: LedgerStore, random: Random, count: number, now: number): Promise<number> {
  // The latest requests are a few minutes old, so all of them have finished.
  const toMs = now - 180_000;
  const fromMs = toMs - SEED_DAYS * DAY_MS;
  const sources = SEED_KEYS.filter(({ weight }) => weight !== undefined).map((key) => toSource(key, now));
  const epoch = await store.register(LEASE_MS);
  // The lease of this instance has already expired, so `reap` settles its open requests as interrupted.
  const expired = await store.register(-1);
  let written = 0;
  const write = async (chunk: readonly SeedRequest[]) => {
    await store.write(expired, interrupted(chunk.filter((request) => request.interrupted)));
    await store.write(epoch, settled(chunk.filter((request) => !request.interrupted)));
    written += chunk.length;
  };
  let chunk: SeedRequest[] = [];
  for (const request of traffic(random, sources, { count, fromMs, toMs })) {
    if (request.ended.endedAt > now) continue;
    chunk.push(request);
    if (chunk.length < CHUNK) continue;
    await write(chunk);
    chunk = [];
  }
  await write(chunk);
  await store.reap(epoch);
  await store.retire(epoch);
  return written;
}

function toSource(key: SeedKey, now: number): Source {
  const { account, weight = 0, rhythm = 'office', models, daysAgo, usedDaysAgo = 0 } = key;
  const plan = SEED_ACCOUNTS.find(({ id }) => id === account)?.plan ?? 'standard';
  return {
    accountId: account,
    keyId: keyId(key),
    clients: key.clients ?? [null],
    plan,
    weight,
    rhythm,
    models: models ?? null,
    fromMs: now - daysAgo * DAY_MS,
    toMs: now - usedDaysAgo * DAY_MS,
  };
}

const NOTHING: Batch = { opens: [], ended: [], checkpoints: [], settles: [], undelivered: [] };

function settled(requests: readonly SeedRequest[]): Batch {
  return {
    ...NOTHING,
    ended: requests.map(({ row, ended }) =>
      endedValues(openedValues(row), settledValues(row.id, priceOf(row), ended)),
    ),
  };
}

function interrupted(requests: readonly SeedRequest[]): Batch {
  return {
    ...NOTHING,
    opens: requests.map(({ row }) => openedValues(row)),
    checkpoints: requests.map(({ row, ended }) => checkpointValues(row.id, ended, ended.endedAt)),
  };
}
