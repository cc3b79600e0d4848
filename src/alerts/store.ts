import { randomUUIDv7 } from 'node:crypto';
import { sql, type Kysely, type Transaction } from 'kysely';
import { appendAudit, type Actor } from '../accounts/audit.ts';
import { UUID } from '../accounts/bounds.ts';
import { invalidCursor, pageLimit, pageOf, type Page, type PageQuery } from '../accounts/page.ts';
import { ALERT_TYPES } from '../config/alerts.ts';
import type { Database } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import { isAlertType, treatmentOf, type Condition } from './types.ts';

/** Maximum alerts that fire at a time. Others fire when some are resolved. */
export const MAX_FIRING = 1000;
/** Maximum messages that wait to be sent to a channel. Additional ones fail. */
const MAX_PENDING = 2000;
/** Messages that were not sent within this time fail, in milliseconds. */
const MAX_AGE_MS = 86_400_000;
/**
 * How long an instance may take to send a message, in milliseconds; after that, another instance sends it. Longer than
 * all timeouts of a channel, and than clocks of instances may differ.
 */
export const LEASE_MS = 120_000;

export type MessageEvent = 'firing' | 'resolved';
type MessageState = 'pending' | 'sent' | 'failed' | 'silenced';

/** An alert as messages describe it. Times are Unix milliseconds. */
export interface Alert {
  id: string;
  condition: string;
  type: string;
  title: string;
  text: string;
  firedAt: number;
  resolvedAt: number | null;
}

/** A message that an instance has claimed. */
export interface ClaimedMessage {
  /** The same for all attempts. */
  id: string;
  event: MessageEvent;
  channel: string;
  /** Including the one that begins. */
  attempts: number;
  alert: Alert;
}

/** What became of an attempt. `retryAt` is Unix milliseconds; null: there is no further attempt. */
export type Outcome = { sent: true } | { sent: false; error: string; retryAt: number | null };

/** A message in the list of alerts. */
interface ListedMessage {
  event: MessageEvent;
  channel: string;
  state: MessageState;
  attempts: number;
  sentAt: number | null;
  error: string | null;
}

export interface ListedAlert extends Alert {
  messages: ListedMessage[];
  /** Until when the alert or its type is silenced; null: it is not. */
  silencedUntil: number | null;
}

export interface Silence {
  /** A type of alerts, or the condition of one. */
  target: string;
  until: number;
  createdBy: string;
}

/** An alert that is firing. */
export interface FiringAlert {
  id: string;
  condition: string;
}

/** A message that was sent or failed while the database was not available. */
export interface LocalMessage {
  id: string;
  channel: string;
  state: MessageState;
  attempts: number;
  createdAt: number;
  nextAt: number;
  sentAt: number | null;
  error: string | null;
}

type Executor = Kysely<Schema> | Transaction<Schema>;

/**
 * The alerts of all instances, and the outbox of their messages. Methods that the service calls regularly use the
 * connections for background work. All reject with a `DatabaseError`.
 */
export class AlertStore {
  readonly #database: Database;
  readonly #now: () => number;

  /** `now` returns Unix milliseconds. */
  constructor(database: Database, now: () => number = Date.now) {
    this.#database = database;
    this.#now = now;
  }

  /** Returns the firing alerts, oldest first; at most 1000. */
  async firing(): Promise<FiringAlert[]> {
    return await this.#database.background
      .selectFrom('alerts')
      .select(['id', 'condition'])
      .where('resolved_at', 'is', null)
      .orderBy('id')
      .limit(MAX_FIRING)
      .execute();
  }

  /**
   * Fires an alert for a condition and queues a message for each channel. Does nothing if another instance has done so.
   * Returns whether it fired.
   */
  async fire(condition: Condition, channels: readonly string[]): Promise<boolean> {
    const alert = { ...condition, id: randomUUIDv7(), firedAt: this.#now() };
    return await this.#database.background.transaction().execute(async (transaction) => {
      if (!(await this.#insert(transaction, alert))) return false;
      const isSilenced = await this.#isSilenced(transaction, condition);
      await this.#queue(transaction, alert.id, 'firing', channels, isSilenced);
      return true;
    });
  }

  /** Inserts an alert that fired without the database, with its messages. Does nothing if the condition is firing. */
  async adopt(alert: Alert, messages: readonly LocalMessage[]): Promise<void> {
    await this.#database.background.transaction().execute(async (transaction) => {
      if (!(await this.#insert(transaction, { ...alert, key: alert.condition })) || messages.length === 0)
        return;
      await transaction
        .insertInto('alert_messages')
        .values(
          messages.map((message) => ({
            id: message.id,
            alert_id: alert.id,
            event: 'firing' as const,
            channel: message.channel,
            state: message.state,
            attempts: message.attempts,
            created_at: message.createdAt,
            next_at: message.nextAt,
            sent_at: message.sentAt,
            error: message.error,
          })),
        )
        .execute();
    });
  }

  /** Records that the conditions of firing alerts still exist. */
  async touch(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const { background } = this.#database;
    await background.updateTable('alerts').set({ seen_at: this.#now() }).where('id', 'in', ids).execute();
  }

  /** Resolves the alerts whose condition no instance has found since `before`. Returns their number. */
  async resolveUnseen(before: number): Promise<number> {
    return await this.#database.background.transaction().execute(async (transaction) => {
      const resolved = await transaction
        .updateTable('alerts')
        .set({ resolved_at: this.#now() })
        .where('resolved_at', 'is', null)
        .where('seen_at', '<', before)
        .returning(['id', 'type', 'condition'])
        .execute();
      for (const { id, type, condition } of resolved) {
        const { once, sendsResolved } = treatmentOf(type);
        if (!once) {
          const dedupe_key = `${condition}#${id}`;
          await transaction.updateTable('alerts').set({ dedupe_key }).where('id', '=', id).execute();
        }
        if (!sendsResolved) continue;
        const fired = await transaction
          .selectFrom('alert_messages')
          .select('channel')
          .where('alert_id', '=', id)
          .where('state', '<>', 'silenced')
          .execute();
        const channels = fired.map(({ channel }) => channel);
        const isSilenced = await this.#isSilenced(transaction, { type, key: condition });
        await this.#queue(transaction, id, 'resolved', channels, isSilenced);
      }
      return resolved.length;
    });
  }

  /** Returns the channels, among these, that have messages to send now. */
  async dueChannels(channels: readonly string[]): Promise<string[]> {
    if (channels.length === 0) return [];
    const rows = await this.#database.background
      .selectFrom('alert_messages')
      .select('channel')
      .distinct()
      .where('state', '=', 'pending')
      .where('next_at', '<=', this.#now())
      .where('channel', 'in', channels)
      .execute();
    return rows.map(({ channel }) => channel);
  }

  /**
   * Claims the message of a channel that is due first, for `LEASE_MS`; null: none is due. A message that an alert is
   * resolved waits until the one that it fired was sent or has failed.
   */
  async claim(channel: string): Promise<ClaimedMessage | null> {
    const now = this.#now();
    const { background, location } = this.#database;
    const due = background
      .selectFrom('alert_messages as message')
      .select('message.id')
      .where('message.state', '=', 'pending')
      .where('message.channel', '=', channel)
      .where('message.next_at', '<=', now)
      .where((is) =>
        is.or([
          is('message.event', '=', 'firing'),
          is.not(
            is.exists(
              is
                .selectFrom('alert_messages as first')
                .select('first.id')
                .whereRef('first.alert_id', '=', 'message.alert_id')
                .where('first.channel', '=', channel)
                .where('first.event', '=', 'firing')
                .where('first.state', '=', 'pending'),
            ),
          ),
        ]),
      )
      .orderBy('message.next_at')
      .orderBy('message.id')
      .limit(1)
      .$if(location.kind === 'postgres', (query) => query.forUpdate().skipLocked());
    const claimed = await background
      .updateTable('alert_messages')
      .set({ attempts: sql`attempts + 1`, next_at: now + LEASE_MS })
      .where('id', 'in', due)
      .returning(['id', 'event', 'attempts', 'alert_id'])
      .executeTakeFirst();
    if (claimed === undefined) return null;
    const row = await background
      .selectFrom('alerts')
      .selectAll()
      .where('id', '=', claimed.alert_id)
      .executeTakeFirstOrThrow();
    const { id, event, attempts } = claimed;
    return { id, event, channel, attempts, alert: alertOf(row) };
  }

  /** Records what became of a claimed message, unless another instance has claimed it since. */
  async finish({ id, attempts }: Pick<ClaimedMessage, 'id' | 'attempts'>, outcome: Outcome): Promise<void> {
    const now = this.#now();
    await this.#database.background
      .updateTable('alert_messages')
      .set(
        outcome.sent
          ? { state: 'sent', sent_at: now, error: null }
          : outcome.retryAt === null
            ? { state: 'failed', error: outcome.error }
            : { next_at: outcome.retryAt, error: outcome.error },
      )
      .where('id', '=', id)
      .where('attempts', '=', attempts)
      .where('state', '=', 'pending')
      .execute();
  }

  /**
   * Ends silences whose time is over, lets messages that are too old fail, and deletes alerts that were resolved before
   * `keepFrom`, in Unix milliseconds.
   */
  async cleanUp(keepFrom: number): Promise<void> {
    const now = this.#now();
    const { background } = this.#database;
    const over = await background
      .selectFrom('alert_silences')
      .select('target')
      .where('until', '<=', now)
      .execute();
    for (const { target } of over) {
      await background
        .transaction()
        .execute((transaction) => endSilence(transaction, target, now, { isOver: true }));
    }
    await background
      .updateTable('alert_messages')
      .set({ state: 'failed', error: sql`coalesce(error, 'It could not be sent within 24 hours.')` })
      .where('state', '=', 'pending')
      .where('created_at', '<', now - MAX_AGE_MS)
      .execute();
    await background
      .deleteFrom('alerts')
      .where('id', 'in', (old) =>
        old.selectFrom('alerts').select('id').where('resolved_at', '<', keepFrom).limit(500),
      )
      .execute();
  }

  /** Returns a page of alerts, newest first. Rejects with `invalid_value` (param `limit` or `cursor`). */
  async list(page: PageQuery = {}): Promise<Page<ListedAlert>> {
    const { kysely } = this.#database;
    const limit = pageLimit(page);
    const before = page.cursor ?? null;
    if (before !== null && !UUID.test(before)) throw invalidCursor();
    const rows = await kysely
      .selectFrom('alerts')
      .selectAll()
      .$if(before !== null, (query) => query.where('id', '<', before ?? ''))
      .orderBy('id', 'desc')
      .limit(limit + 1)
      .execute();
    const { items, nextCursor } = pageOf(rows, limit, ({ id }) => id);
    if (items.length === 0) return { items: [], nextCursor };
    const messages = await kysely
      .selectFrom('alert_messages')
      .selectAll()
      .where(
        'alert_id',
        'in',
        items.map(({ id }) => id),
      )
      .orderBy('event')
      .orderBy('channel')
      .execute();
    const ofAlert = Map.groupBy(messages, ({ alert_id: alertId }) => alertId);
    const silences = await this.silences();
    const until = (target: string) => silences.find((silence) => silence.target === target)?.until ?? 0;
    return {
      items: items.map((row) => ({
        ...alertOf(row),
        messages: (ofAlert.get(row.id) ?? []).map(
          ({ event, channel, state, attempts, sent_at: sentAt, error }) => ({
            event,
            channel,
            state,
            attempts,
            sentAt,
            error,
          }),
        ),
        silencedUntil: Math.max(until(row.type), until(row.condition)) || null,
      })),
      nextCursor,
    };
  }

  /** Returns the number of firing alerts. */
  async countFiring(): Promise<number> {
    const { count } = await this.#database.kysely
      .selectFrom('alerts')
      .select((select) => select.fn.countAll<number>().as('count'))
      .where('resolved_at', 'is', null)
      .executeTakeFirstOrThrow();
    return count;
  }

  /** Returns the silences whose time is not over, those that end first first. */
  async silences(): Promise<Silence[]> {
    const rows = await this.#database.kysely
      .selectFrom('alert_silences')
      .select(['target', 'until', 'created_by'])
      .where('until', '>', this.#now())
      .orderBy('until')
      .orderBy('target')
      .execute();
    return rows.map(({ target, until, created_by: createdBy }) => ({ target, until, createdBy }));
  }

  /**
   * Silences a type or the condition of an alert until a time: messages that wait are not sent, and neither are new ones.
   * Rejects with a `ServiceError` `not_found` or `invalid_value` (param `until`).
   */
  async silence(of: SilenceTarget, until: number, by: Actor): Promise<Silence> {
    const now = this.#now();
    if (!(until > now && until <= now + MAX_SILENCE_MS)) {
      throw new ServiceError('invalid_value', '`until` must be a time in the next 366 days.', {
        param: 'until',
      });
    }
    return await this.#database.kysely.transaction().execute(async (transaction) => {
      const target = await targetOf(transaction, of);
      const values = { until, created_at: now, created_by: by.id };
      await transaction
        .insertInto('alert_silences')
        .values({ target, ...values })
        .onConflict((conflict) => conflict.column('target').doUpdateSet(values))
        .execute();
      await transaction
        .updateTable('alert_messages')
        .set({ state: 'silenced' })
        .where('state', '=', 'pending')
        .where('alert_id', 'in', alertsOf(transaction, target))
        .execute();
      await appendAudit(transaction, by, {
        action: 'alert.silence',
        subject: `alert:${target}`,
        detail: { until: new Date(until).toISOString() },
      });
      return { target, until, createdBy: by.id };
    });
  }

  /**
   * Ends a silence, if there is one. Alerts that fired in the meantime and are still firing are sent. Returns the target.
   * Rejects with a `ServiceError` `not_found`.
   */
  async unsilence(of: SilenceTarget, by: Actor): Promise<string> {
    return await this.#database.kysely.transaction().execute(async (transaction) => {
      const target = await targetOf(transaction, of);
      if (await endSilence(transaction, target, this.#now())) {
        await appendAudit(transaction, by, { action: 'alert.unsilence', subject: `alert:${target}` });
      }
      return target;
    });
  }

  async #insert(
    transaction: Transaction<Schema>,
    { id, key, type, title, text, firedAt }: Omit<Alert, 'condition' | 'resolvedAt'> & { key: string },
  ): Promise<boolean> {
    const { numInsertedOrUpdatedRows: count } = await transaction
      .insertInto('alerts')
      .values({
        id,
        dedupe_key: key,
        condition: key,
        type,
        title,
        body: text,
        fired_at: firedAt,
        seen_at: this.#now(),
        resolved_at: null,
      })
      .onConflict((conflict) => conflict.column('dedupe_key').doNothing())
      .executeTakeFirst();
    return Boolean(count);
  }

  async #queue(
    transaction: Transaction<Schema>,
    alertId: string,
    event: MessageEvent,
    channels: readonly string[],
    isSilenced: boolean,
  ): Promise<void> {
    if (channels.length === 0) return;
    const now = this.#now();
    const pending = await transaction
      .selectFrom('alert_messages')
      .select(['channel', (select) => select.fn.countAll<number>().as('count')])
      .where('state', '=', 'pending')
      .groupBy('channel')
      .execute();
    const full = new Set(pending.filter(({ count }) => count >= MAX_PENDING).map(({ channel }) => channel));
    const stateFor = (channel: string) =>
      isSilenced ? 'silenced' : full.has(channel) ? 'failed' : 'pending';
    await transaction
      .insertInto('alert_messages')
      .values(
        channels.map((channel) => ({
          id: randomUUIDv7(),
          alert_id: alertId,
          event,
          channel,
          state: stateFor(channel),
          attempts: 0,
          created_at: now,
          next_at: now,
          sent_at: null,
          error:
            stateFor(channel) === 'failed' ? `${MAX_PENDING} other messages are waiting to be sent.` : null,
        })),
      )
      .execute();
  }

  async #isSilenced(executor: Executor, { type, key }: { type: string; key: string }): Promise<boolean> {
    const row = await executor
      .selectFrom('alert_silences')
      .select('target')
      .where('target', 'in', [type, key])
      .where('until', '>', this.#now())
      .executeTakeFirst();
    return row !== undefined;
  }
}

/** What to silence. Exactly one field is set. */
export interface SilenceTarget {
  type?: string | undefined;
  /** ID of an alert. */
  alertId?: string | undefined;
}

const MAX_SILENCE_MS = 366 * 86_400_000;

/** Returns the target of a silence. Rejects with a `ServiceError` `invalid_value` or `not_found`. */
async function targetOf(executor: Executor, { type, alertId }: SilenceTarget): Promise<string> {
  if ((type === undefined) === (alertId === undefined)) {
    throw new ServiceError('invalid_value', 'Either `type` or `alert_id` is required.', { param: 'type' });
  }
  if (type !== undefined) {
    if (isAlertType(type)) return type;
    const message = `There is no type of alerts \`${type}\`. Types: ${ALERT_TYPES.join(', ')}.`;
    throw new ServiceError('not_found', message, { param: 'type' });
  }
  const row = await executor
    .selectFrom('alerts')
    .select('condition')
    .where('id', '=', alertId ?? '')
    .executeTakeFirst();
  if (row === undefined)
    throw new ServiceError('not_found', 'There is no such alert.', { param: 'alert_id' });
  return row.condition;
}

function alertsOf(executor: Executor, target: string) {
  return executor
    .selectFrom('alerts')
    .select('id')
    .where(isAlertType(target) ? 'type' : 'condition', '=', target);
}

/**
 * Deletes a silence, with `isOver` only if its time is over, and queues what it held back of alerts that are still firing.
 * Returns whether it was deleted.
 */
async function endSilence(
  transaction: Transaction<Schema>,
  target: string,
  now: number,
  { isOver = false } = {},
): Promise<boolean> {
  const { numDeletedRows } = await transaction
    .deleteFrom('alert_silences')
    .where('target', '=', target)
    .$if(isOver, (query) => query.where('until', '<=', now))
    .executeTakeFirst();
  if (numDeletedRows === 0n) return false;
  const silenced = transaction.selectFrom('alert_silences').select('target').where('until', '>', now);
  await transaction
    .updateTable('alert_messages')
    .set({ state: 'pending', next_at: now, created_at: now })
    .where('state', '=', 'silenced')
    .where('event', '=', 'firing')
    .where(
      'alert_id',
      'in',
      alertsOf(transaction, target)
        .where('resolved_at', 'is', null)
        .where('type', 'not in', silenced)
        .where('condition', 'not in', silenced),
    )
    .execute();
  return true;
}

function alertOf(row: {
  id: string;
  condition: string;
  type: string;
  title: string;
  body: string;
  fired_at: number;
  resolved_at: number | null;
}): Alert {
  const { id, condition, type, title, body: text, fired_at: firedAt, resolved_at: resolvedAt } = row;
  return { id, condition, type, title, text, firedAt, resolvedAt };
}
