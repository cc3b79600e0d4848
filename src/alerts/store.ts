import { randomUUIDv7 } from 'node:crypto';
import { sql, type Kysely, type RawBuilder, type Selectable } from 'kysely';
import { appendAudit, type Actor } from '../accounts/audit.ts';
import { readNewest, type Page, type PageQuery } from '../accounts/page.ts';
import type { Database } from '../database/database.ts';
import type { Schema, Transaction } from '../database/schema.ts';
import { ServiceError } from '../core/errors.ts';
import { ALERT_TYPES, isAlertType, treatmentOf, type Condition } from '../core/alert-types.ts';

/** Maximum alerts that fire at a time. Others fire when some are resolved. */
const MAX_FIRING = 1000;
/** Maximum messages that wait to be sent to a channel. Additional ones fail. */
const MAX_PENDING = 2000;
/** Messages that were not sent within this time fail, in milliseconds. Silences do not count. */
const MAX_AGE_MS = 86_400_000;
/**
 * An alert is resolved when no instance has found its condition for this time, in milliseconds: long enough for a few
 * failed checks of one instance, and for conditions that come and go.
 */
export const RESOLVE_MS = 60_000;
/**
 * How long a message belongs to the instance that claimed it, in milliseconds. The instance renews this with each check
 * while it sends. After that, another instance sends it.
 */
export const CLAIM_MS = 120_000;

export type MessageEvent = Selectable<Schema['alert_messages']>['event'];
type MessageState = Selectable<Schema['alert_messages']>['state'];

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

/** What became of an attempt. `retryInMs` null: there is no further attempt. */
export type Outcome = { sent: true } | { sent: false; error: string; retryInMs: number | null };

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

/** What one check of an instance found. */
export interface CheckResult {
  found: readonly Condition[];
  /** Conditions that this instance cannot judge now. Their alerts stay as they are. */
  kept: ReadonlySet<string>;
  /** An alert that fired without the database; null: none. */
  outage: SentOutage | null;
  /** Whether to resolve the alerts whose condition no instance has found for `RESOLVE_MS`. */
  resolves: boolean;
  /** Returns the channels that get a message about a new alert with this condition. */
  channelsFor: (condition: string) => readonly string[];
}

/** The alerts after a check. */
export interface RecordedCheck {
  /** Conditions for which this check fired an alert. */
  fired: Condition[];
  /** Conditions of the firing alerts of all instances. */
  firing: string[];
  silences: Silence[];
}

/** A message that was sent or failed while the database was not available. */
export interface LocalMessage {
  id: string;
  channel: string;
  state: Exclude<MessageState, 'silenced'>;
  attempts: number;
  nextAt: number;
  sentAt: number | null;
  error: string | null;
}

/** An alert that fired without the database, and its messages. */
export interface SentOutage {
  alert: Alert;
  messages: LocalMessage[];
}

type NewAlert = Omit<Alert, 'firedAt' | 'resolvedAt'> & { firedAt: number | RawBuilder<number> };

type Executor = Kysely<Schema> | Transaction;

/**
 * The alerts of all instances, and the outbox of their messages. Times are those of the database, because the clocks of
 * instances differ. Methods that the service calls regularly use the connections for background work. All reject with a
 * `DatabaseError`.
 */
export class AlertStore {
  readonly #database: Database;
  readonly #now: (() => number) | undefined;

  /** `now` returns Unix milliseconds. Default: the clock of the database. */
  constructor(database: Database, now?: () => number) {
    this.#database = database;
    this.#now = now;
  }

  /** Returns the conditions of the firing alerts, oldest first; at most 1000. */
  async firing(): Promise<string[]> {
    const firing = await this.#firing(this.#database.background);
    return firing.map(({ condition }) => condition);
  }

  /**
   * Records a check in one transaction, so that a check has either worked or failed: fires an alert for each new condition
   * with a message per channel, unless another instance has done so, and resolves the alerts that are over.
   */
  async record({ found, kept, outage, resolves, channelsFor }: CheckResult): Promise<RecordedCheck> {
    return await this.#database.background.transaction().execute(async (transaction) => {
      if (outage !== null) await this.#adopt(transaction, outage);
      const before = await this.#firing(transaction);
      const keys = new Set(found.map(({ key }) => key));
      await this.#touch(
        transaction,
        before.filter(({ condition }) => keys.has(condition) || kept.has(condition)).map(({ id }) => id),
      );
      const firing = new Map(before.map(({ id, condition }) => [id, condition]));
      const known = new Set(firing.values());
      const fired: Condition[] = [];
      // In one order, so that two instances do not wait for each other.
      for (const condition of found.toSorted((a, b) => (a.key < b.key ? -1 : 1))) {
        if (known.has(condition.key) || firing.size >= maxFiringWith(condition)) continue;
        const id = await this.#fire(transaction, condition, channelsFor(condition.key));
        if (id === null) continue;
        firing.set(id, condition.key);
        fired.push(condition);
      }
      if (resolves && before.length > 0)
        for (const id of await this.#resolveUnseen(transaction)) firing.delete(id);
      return { fired, firing: [...firing.values()], silences: await this.#silences(transaction) };
    });
  }

  /** Returns the channels, among these, that have messages to send now. */
  async dueChannels(channels: readonly string[]): Promise<string[]> {
    if (channels.length === 0) return [];
    const rows = await this.#due()
      .select('message.channel')
      .distinct()
      .where('message.channel', 'in', channels)
      .execute();
    return rows.map(({ channel }) => channel);
  }

  /** Claims the message of a channel that is due first, for `CLAIM_MS`; null: none is due. */
  async claim(channel: string): Promise<ClaimedMessage | null> {
    const { background } = this.#database;
    const due = this.#due()
      .select('message.id')
      .where('message.channel', '=', channel)
      .orderBy('message.next_at')
      .orderBy('message.id')
      .limit(1)
      .forUpdate()
      .skipLocked();
    const claimed = await background
      .updateTable('alert_messages')
      .set({ attempts: sql`attempts + 1`, next_at: this.#time(CLAIM_MS) })
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

  /** Keeps a claimed message for another `CLAIM_MS`, unless another instance has claimed it since. */
  async renew({ id, attempts }: Pick<ClaimedMessage, 'id' | 'attempts'>): Promise<void> {
    await this.#database.background
      .updateTable('alert_messages')
      .set({ next_at: this.#time(CLAIM_MS) })
      .where('id', '=', id)
      .where('attempts', '=', attempts)
      .where('state', '=', 'pending')
      .execute();
  }

  /** Records what became of a claimed message, unless another instance has claimed it since. */
  async finish({ id, attempts }: Pick<ClaimedMessage, 'id' | 'attempts'>, outcome: Outcome): Promise<void> {
    await this.#database.background
      .updateTable('alert_messages')
      .set(
        outcome.sent
          ? { state: 'sent', sent_at: this.#time(), error: null }
          : outcome.retryInMs === null
            ? { state: 'failed', error: outcome.error }
            : { next_at: this.#time(outcome.retryInMs), error: outcome.error },
      )
      .where('id', '=', id)
      .where('attempts', '=', attempts)
      .where('state', '=', 'pending')
      .execute();
  }

  /** Lets messages that are too old fail, and deletes old silences, and alerts that were resolved `keepMs` ago. */
  async cleanUp(keepMs: number): Promise<void> {
    const { background } = this.#database;
    await background
      .updateTable('alert_messages')
      .set({ state: 'failed', error: sql`coalesce(error, 'It could not be sent within 24 hours.')` })
      .where('state', '=', 'pending')
      .where('created_at', '<', this.#time(-MAX_AGE_MS))
      .where(sql<boolean>`not ${this.#silencedSince(-MAX_AGE_MS)}`)
      .execute();
    await background.deleteFrom('alert_silences').where('until', '<', this.#time(-MAX_AGE_MS)).execute();
    await background
      .deleteFrom('alerts')
      .where('id', 'in', (old) =>
        old.selectFrom('alerts').select('id').where('resolved_at', '<', this.#time(-keepMs)).limit(500),
      )
      .execute();
  }

  /** Returns a page of alerts, newest first. Rejects with `invalid_value` (param `limit` or `cursor`). */
  async list(page: PageQuery = {}): Promise<Page<ListedAlert>> {
    const { kysely } = this.#database;
    const { items, nextCursor } = await readNewest(kysely.selectFrom('alerts').selectAll(), page);
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
      items: items.map((row) => {
        const silencedUntil = Math.max(until(row.type), until(row.condition)) || null;
        return {
          ...alertOf(row),
          messages: (ofAlert.get(row.id) ?? []).map((message) => ({
            event: message.event,
            channel: message.channel,
            state: silencedUntil !== null && isHeldBySilence(message) ? 'silenced' : message.state,
            attempts: message.attempts,
            sentAt: message.sent_at,
            error: message.error,
          })),
          silencedUntil,
        };
      }),
      nextCursor,
    };
  }

  /** Returns the silences whose time is not over, those that end first first. */
  async silences(): Promise<Silence[]> {
    return await this.#silences(this.#database.kysely);
  }

  /**
   * Silences a type or the condition of an alert until a time. Rejects with a `ServiceError` `not_found` or
   * `invalid_value` (param `until`).
   */
  async silence(of: SilenceTarget, until: number, by: Actor): Promise<Silence> {
    const now = (this.#now ?? Date.now)();
    if (!(until > now && until <= now + MAX_SILENCE_MS)) {
      throw new ServiceError('invalid_value', '`until` must be a time in the next 366 days.', {
        param: 'until',
      });
    }
    return await this.#database.kysely.transaction().execute(async (transaction) => {
      const target = await targetOf(transaction, of);
      const values = { until, created_at: this.#time(), created_by: by.id };
      await transaction
        .insertInto('alert_silences')
        .values({ target, ...values })
        .onConflict((conflict) => conflict.column('target').doUpdateSet(values))
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
      const { numUpdatedRows } = await transaction
        .updateTable('alert_silences')
        .set({ until: this.#time() })
        .where('target', '=', target)
        .where('until', '>', this.#time())
        .executeTakeFirst();
      if (numUpdatedRows > 0n)
        await appendAudit(transaction, by, { action: 'alert.unsilence', subject: `alert:${target}` });
      return target;
    });
  }

  /** Returns the time of the database in Unix milliseconds, plus an offset. */
  #time(offsetMs = 0): RawBuilder<number> {
    if (this.#now === undefined && this.#database.location.kind === 'postgres') {
      // The start of the statement. `clock_timestamp()` would keep PostgreSQL from using an index.
      return sql`(cast(extract(epoch from statement_timestamp()) * 1000 as int8) + ${sql.lit(offsetMs)})`;
    }
    // On SQLite, all processes run on one machine.
    return sql`cast(${(this.#now ?? Date.now)() + offsetMs} as int8)`;
  }

  async #firing(executor: Executor): Promise<{ id: string; condition: string }[]> {
    return await executor
      .selectFrom('alerts')
      .select(['id', 'condition'])
      .where('resolved_at', 'is', null)
      .orderBy('id')
      .limit(MAX_FIRING)
      .execute();
  }

  async #touch(transaction: Transaction, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    await transaction.updateTable('alerts').set({ seen_at: this.#time() }).where('id', 'in', ids).execute();
  }

  /** Returns the ID of the new alert; null: another instance has fired it, or it fires only once. */
  async #fire(
    transaction: Transaction,
    { key, type, title, text }: Condition,
    channels: readonly string[],
  ): Promise<string | null> {
    const id = randomUUIDv7();
    const alert = { id, condition: key, type, title, text, firedAt: this.#time() };
    if (!(await this.#insert(transaction, alert, key))) return null;
    await this.#queue(transaction, id, 'firing', channels);
    return id;
  }

  /**
   * Inserts an alert that fired without the database, with its messages. It does not depend on other alerts about the same
   * condition, because it was sent and must be resolved.
   */
  async #adopt(transaction: Transaction, { alert, messages }: SentOutage): Promise<void> {
    // It was inserted before, if the instance ended after that.
    const isNew = await this.#insert(transaction, alert, freeKey(alert));
    if (!isNew || messages.length === 0) return;
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
          created_at: this.#time(),
          next_at: this.#time(),
          sent_at: message.sentAt,
          error: message.error,
        })),
      )
      .execute();
  }

  /** Returns false if the alert, or another one with the same `dedupeKey`, was inserted before. */
  async #insert(
    transaction: Transaction,
    { id, condition, type, title, text, firedAt }: NewAlert,
    dedupeKey: string,
  ): Promise<boolean> {
    const { numInsertedOrUpdatedRows: count } = await transaction
      .insertInto('alerts')
      .values({
        id,
        dedupe_key: dedupeKey,
        condition,
        type,
        title,
        body: text,
        fired_at: firedAt,
        seen_at: this.#time(),
        resolved_at: null,
      })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    return Boolean(count);
  }

  /** Resolves the alerts whose condition no instance has found for `RESOLVE_MS`. Returns their IDs. */
  async #resolveUnseen(transaction: Transaction): Promise<string[]> {
    const resolved = await transaction
      .updateTable('alerts')
      .set({ resolved_at: this.#time() })
      .where('resolved_at', 'is', null)
      .where('seen_at', '<', this.#time(-RESOLVE_MS))
      .returning(['id', 'type', 'condition'])
      .execute();
    const ids = resolved.map(({ id }) => id);
    if (ids.length === 0) return ids;
    // These were never sent, so their receivers need not learn that the alerts are resolved.
    await transaction
      .updateTable('alert_messages')
      .set({ state: 'silenced' })
      .where('alert_id', 'in', ids)
      .where('event', '=', 'firing')
      .where('state', '=', 'pending')
      .where('attempts', '=', 0)
      .where(this.#silencedSince())
      .execute();
    for (const alert of resolved) {
      const { id, type } = alert;
      const { once, sendsResolved } = treatmentOf(type);
      if (!once) {
        const dedupe_key = freeKey(alert);
        await transaction.updateTable('alerts').set({ dedupe_key }).where('id', '=', id).execute();
      }
      if (!sendsResolved) continue;
      const fired = await transaction
        .selectFrom('alert_messages')
        .select('channel')
        .where('alert_id', '=', id)
        .where('state', '<>', 'silenced')
        .execute();
      await this.#queue(
        transaction,
        id,
        'resolved',
        fired.map(({ channel }) => channel),
      );
    }
    return ids;
  }

  async #queue(
    transaction: Transaction,
    alertId: string,
    event: MessageEvent,
    channels: readonly string[],
  ): Promise<void> {
    if (channels.length === 0) return;
    const pending = await transaction
      .selectFrom('alert_messages')
      .select(['channel', (select) => select.fn.countAll<number>().as('count')])
      .where('state', '=', 'pending')
      .groupBy('channel')
      .execute();
    const full = new Set(pending.filter(({ count }) => count >= MAX_PENDING).map(({ channel }) => channel));
    await transaction
      .insertInto('alert_messages')
      .values(
        channels.map((channel) => ({
          id: randomUUIDv7(),
          alert_id: alertId,
          event,
          channel,
          state: full.has(channel) ? ('failed' as const) : ('pending' as const),
          attempts: 0,
          created_at: this.#time(),
          next_at: this.#time(),
          sent_at: null,
          error: full.has(channel) ? `${MAX_PENDING} other messages are waiting to be sent.` : null,
        })),
      )
      .execute();
  }

  /**
   * Selects the messages that may be sent now. A silence holds back only what the receiver cannot know yet: a message
   * whose first attempt was made is sent, and so is the message that its alert is resolved. That one waits until the first
   * one was sent or has failed.
   */
  #due() {
    return this.#database.background
      .selectFrom('alert_messages as message')
      .where('message.state', '=', 'pending')
      .where('message.next_at', '<=', this.#time())
      .where((is) =>
        is.or([
          is.and([
            is('message.event', '=', 'firing'),
            is.or([is('message.attempts', '>', 0), is.not(this.#silencedSince())]),
          ]),
          is.and([
            is('message.event', '=', 'resolved'),
            is.not(
              is.exists(
                is
                  .selectFrom('alert_messages as first')
                  .select('first.id')
                  .whereRef('first.alert_id', '=', 'message.alert_id')
                  .whereRef('first.channel', '=', 'message.channel')
                  .where('first.event', '=', 'firing')
                  .where('first.state', '=', 'pending'),
              ),
            ),
          ]),
        ]),
      );
  }

  /** Whether the alert of a message was silenced at any time since now plus an offset. */
  #silencedSince(offsetMs = 0): RawBuilder<boolean> {
    return sql`exists (
      select 1 from alerts join alert_silences on target = type or target = condition
      where alerts.id = alert_id and until > ${this.#time(offsetMs)})`;
  }

  async #silences(executor: Executor): Promise<Silence[]> {
    const rows = await executor
      .selectFrom('alert_silences')
      .select(['target', 'until', 'created_by'])
      .where('until', '>', this.#time())
      .orderBy('until')
      .orderBy('target')
      .execute();
    return rows.map(({ target, until, created_by: createdBy }) => ({ target, until, createdBy }));
  }
}

/** Firing alerts that budgets and keys, of which there can be many, leave to what is wrong with the service. */
const RESERVED = 200;

/** Returns how many alerts may fire before one for this condition does not. */
function maxFiringWith({ type }: Condition): number {
  const isOfAccount = type === 'budget_80' || type === 'budget_100' || type === 'key_expiring';
  return isOfAccount ? MAX_FIRING - RESERVED : MAX_FIRING;
}

/** Returns a unique key for an alert that does not keep its condition from firing. */
function freeKey({ id, condition }: Pick<Alert, 'id' | 'condition'>): string {
  return `${condition}#${id}`;
}

/** Whether a silence of its alert holds a message back. */
function isHeldBySilence({ event, state, attempts }: Selectable<Schema['alert_messages']>): boolean {
  return event === 'firing' && state === 'pending' && attempts === 0;
}

/** What to silence. Exactly one field is set. */
export interface SilenceTarget {
  type?: string | undefined;
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

function alertOf(row: Selectable<Schema['alerts']>): Alert {
  const { id, condition, type, title, body: text, fired_at: firedAt, resolved_at: resolvedAt } = row;
  return { id, condition, type, title, text, firedAt, resolvedAt };
}
