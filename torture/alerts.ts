import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { treatmentOf } from '../src/core/alert-types.ts';
import { openBackup } from '../src/database/backup.ts';
import type { Database } from '../src/database/database.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../test/support/webhook-receiver.ts';
import type { Difference } from './compare.ts';
import { EMBEDDED_MODEL, FALSE_USAGE_MODEL, REPLICA_MODEL } from './configuration.ts';
import { falseUsageRequest } from './false-usage.ts';
import type { Testbed } from './testbed.ts';

const HOUR_MS = 3_600_000;

/** How long alerts may fire and messages may wait after the faults, in milliseconds. */
const LONGEST_ALERT_MS = 300_000;

/** A webhook that the receiver accepted. */
interface Accepted {
  /** Of the message. */
  id: string;
  alertId: string;
  type: string;
}

export interface AlertReceiver extends AsyncDisposable {
  readonly url: string;
  readonly accepted: readonly Accepted[];
}

/** Starts a server that refuses one in four webhooks with 503 and stores the others. */
export async function startAlertReceiver(): Promise<AlertReceiver> {
  const receiver: WebhookReceiver = await startWebhookReceiver();
  const accepted: Accepted[] = [];
  receiver.respond = (response) => {
    const webhook = receiver.received.at(-1);
    if (webhook === undefined || receiver.received.length % 4 === 0)
      return void response.writeHead(503).end();
    const { headers, json } = webhook;
    accepted.push({ id: String(headers['webhook-id']), alertId: String(json.data['id']), type: json.type });
    response.writeHead(204).end();
  };
  return { url: receiver.url, accepted, [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose]() };
}

/**
 * Waits until the alerts that send it are resolved and their messages were sent, for at most 5 minutes. Sends requests,
 * because a replica that its breaker has paused waits for one.
 */
export async function alertsResolved(
  { callers, instances }: Pick<Testbed, 'callers' | 'instances'>,
  { kysely }: Database,
  stop: AbortSignal,
): Promise<Difference[]> {
  const caller = callers.find(({ plan }) => plan === 'roomy');
  if (caller === undefined) throw new Error('there is no account on the plan roomy');
  const headers = { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' };
  const options = { endpoint: 'chat', streamed: false, usage: 'correct', words: 1 } as const;
  const { body } = falseUsageRequest({ id: '', caller, instance: 0, ...options });
  const deadline = performance.now() + LONGEST_ALERT_MS;
  for (;;) {
    const firing = await kysely
      .selectFrom('alerts')
      .select(['type', 'title'])
      .where('resolved_at', 'is', null)
      .execute();
    const waiting = await kysely
      .selectFrom('alert_messages')
      .innerJoin('alerts', 'alerts.id', 'alert_id')
      .select(['alerts.title', 'event', 'attempts'])
      .where('state', '=', 'pending')
      .execute();
    const open = firing.filter(({ type }) => treatmentOf(type).sendsResolved);
    if (open.length + waiting.length === 0) return [];
    if (performance.now() > deadline) {
      return [
        ...open.map(({ title }): Difference => ({ kind: 'open', what: `the alert "${title}" still fires` })),
        ...waiting.map(({ title, event, attempts }): Difference => ({
          kind: 'open',
          what: `the message that "${title}" is ${event} was not sent in ${attempts} attempts`,
        })),
      ];
    }
    for (const { url } of instances) {
      for (const model of [EMBEDDED_MODEL, REPLICA_MODEL, FALSE_USAGE_MODEL]) {
        const response = await fetch(`${url}/v1/chat/completions`, {
          method: 'POST',
          headers,
          body: JSON.stringify({ ...body, model }),
        });
        await response.text();
      }
    }
    await pause(1000, undefined, { signal: stop });
  }
}

/** Compares the alerts with the accepted webhooks. */
export async function compareAlerts(
  { kysely }: Database,
  accepted: readonly Accepted[],
): Promise<Difference[]> {
  const messages = await kysely
    .selectFrom('alert_messages')
    .innerJoin('alerts', 'alerts.id', 'alert_id')
    .select(['alert_messages.id', 'state', 'event', 'title'])
    .execute();
  const ids = new Set(accepted.map(({ id }) => id));
  const differences = messages
    .filter(({ id, state }) => state === 'sent' && !ids.has(id))
    .map(({ title, event }): Difference => ({
      kind: 'lost',
      what: `the message that "${title}" is ${event} is recorded as sent, but was not accepted`,
    }));
  for (const [alertId, ofAlert] of Map.groupBy(accepted, (each) => each.alertId)) {
    const fired = ofAlert.filter(({ type }) => type === 'alert.firing');
    const resolved = ofAlert.filter(({ type }) => type === 'alert.resolved');
    // A message whose sender was killed is sent again with the same ID.
    if ([fired, resolved].some((each) => new Set(each.map(({ id }) => id)).size > 1)) {
      differences.push({
        kind: 'doubled',
        what: `two messages about the same event of the alert ${alertId}`,
      });
    }
    if (ofAlert[0]?.type !== 'alert.firing') {
      differences.push({ kind: 'wrong', what: `the alert ${alertId} was resolved before it fired` });
    }
  }
  const alerts = await kysely
    .selectFrom('alerts')
    .select(['condition', 'type', 'title', 'fired_at', 'resolved_at'])
    // Each instance fires it without the others.
    .where('type', '<>', 'database_unavailable')
    .orderBy('fired_at')
    .execute();
  for (const ofCondition of Map.groupBy(alerts, ({ condition }) => condition).values()) {
    for (const [index, { title, fired_at: firedAt }] of ofCondition.entries()) {
      const before = ofCondition[index - 1];
      if (before !== undefined && firedAt < (before.resolved_at ?? Infinity)) {
        differences.push({ kind: 'doubled', what: `the alert "${title}" fired while it was firing` });
      }
    }
  }
  return differences;
}

/** Checks the scheduled backups of all instances, of which there is one per hour. */
export async function compareBackups(directory: string): Promise<Difference[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('Z.db')).toSorted();
  const differences: Difference[] = [];
  let before = -Infinity;
  for (const name of names) {
    const at = Date.parse(name.replace(/^sluice-(.*)T(\d\d)-(\d\d)-(\d\d)Z\.db$/, '$1T$2:$3:$4Z'));
    if (at - before < HOUR_MS) differences.push({ kind: 'doubled', what: `${name} is not due` });
    before = at;
    using backup = openBackup(join(directory, name));
    const result = backup.prepare('pragma integrity_check').get()?.['integrity_check'];
    if (result !== 'ok') differences.push({ kind: 'wrong', what: `${name} is damaged: ${String(result)}` });
  }
  return differences;
}
