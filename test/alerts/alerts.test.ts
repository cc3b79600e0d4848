import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { describe, test } from 'node:test';
import { createAccount } from '../../src/accounts/accounts.ts';
import { changeKey, createKey } from '../../src/accounts/key-table.ts';
import { listAudit } from '../../src/accounts/audit.ts';
import { Plans } from '../../src/accounts/plans.ts';
import { budgetConditions, keyConditions } from '../../src/alerts/account-conditions.ts';
import { AlertStore, CLAIM_MS } from '../../src/alerts/store.ts';
import { pauseAfter } from '../../src/alerts/outbox.ts';
import type { Database } from '../../src/database/database.ts';
import { DatabaseError } from '../../src/database/errors.ts';
import { DEFAULT_ACCOUNT_ID } from '../../src/database/schema.ts';
import { Mailer } from '../../src/identity/mailer.ts';
import { SILENT } from '../../src/support/log.ts';
import { Secret } from '../../src/support/secret.ts';
import { until } from '../harness.ts';
import { startMailServer } from '../identity/mail-server.ts';
import { SQLITE, testDatabases } from '../support/servers.ts';
import { failing, FINE, testInstance, type TestInstance } from './fixture.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts';

const SECOND = 1000;
const MINUTE = 60_000;
const DAY = 86_400_000;
const NOW = Date.UTC(2026, 10, 23, 12);
const FULL = { ...FINE, freeBytes: 1000 };
const operator = { id: 'user:usr_1', ip: null };
const SUCCEEDED = { accountId: DEFAULT_ACCOUNT_ID, model: 'a/b', status: 200, code: null };

/** The types of the messages with the types of their alerts, in the order of arrival. */
function messages({ received }: WebhookReceiver): string[] {
  return received.map(({ json }) => `${json.type} ${String(json.data['alert_type'])}`);
}

/** Checks every 10 seconds for this time. */
async function pass(clock: { now: number }, ms: number, ...instances: TestInstance[]): Promise<void> {
  for (let passed = 0; passed < ms; passed += 10 * SECOND) {
    clock.now += 10 * SECOND;
    for (const instance of instances) await instance.check();
  }
}

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    test('instances send one message when a condition begins, and one when none of them finds it any more', async () => {
      await using database = await kind.open();
      await using other = await database.again();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      await using one = testInstance(database, { clock, urls: [receiver.url] });
      await using two = testInstance(other, { clock, urls: [receiver.url] });
      await Promise.all([one.check(), two.check()]);
      assert.deepEqual(messages(receiver), []);
      one.seen.now = two.seen.now = FULL;
      await Promise.all([one.check(), two.check(), one.check(), two.check()]);
      assert.deepEqual(messages(receiver), ['alert.firing disk_low']);
      const { items } = await one.alerts.store.list();
      assert.deepEqual(
        items.map(({ type, resolvedAt, messages: sent }) => [
          type,
          resolvedAt,
          sent.map(({ state }) => state),
        ]),
        [['disk_low', null, ['sent']]],
      );

      // One instance no longer finds it, but the other one does.
      one.seen.now = FINE;
      await pass(clock, 5 * MINUTE, one, two);
      assert.equal(receiver.received.length, 1);
      assert.equal(one.alerts.firing, 1);

      two.seen.now = FINE;
      await pass(clock, 2 * MINUTE, one, two);
      assert.deepEqual(messages(receiver), ['alert.firing disk_low', 'alert.resolved disk_low']);
      const [first, second] = receiver.received.map(({ json }) => json.data);
      assert.equal(first?.['id'], second?.['id']);
      assert.equal(one.alerts.firing, 0);

      // It fires again with a new ID.
      two.seen.now = FULL;
      await pass(clock, 10 * SECOND, one, two);
      assert.equal(receiver.received.length, 3);
      assert.notEqual(receiver.received[2]?.json.data['id'], first?.['id']);
    });

    test('an instance that has just started does not resolve the alerts of others', async () => {
      await using database = await kind.open();
      const clock = { now: NOW };
      await using one = testInstance(database, { clock });
      one.seen.now = FULL;
      await one.check();
      clock.now += 10 * MINUTE;
      await using two = testInstance(database, { clock });
      await two.check();
      assert.equal((await two.alerts.store.firing()).length, 1);
      await pass(clock, 2 * MINUTE, two);
      assert.equal((await two.alerts.store.firing()).length, 0);
    });

    test('a failed message is sent again with the same ID, after growing pauses, and a failing channel does not delay others', async () => {
      await using database = await kind.open();
      await using broken = await startWebhookReceiver();
      await using good = await startWebhookReceiver();
      const clock = { now: NOW };
      await using one = testInstance(database, { clock, urls: [broken.url, good.url] });
      one.seen.now = FULL;
      broken.respond = (response) => response.writeHead(500).end('no');
      await one.check();
      assert.deepEqual([broken.received.length, good.received.length], [1, 1]);
      await one.check();
      assert.equal(broken.received.length, 1);
      await pass(clock, MINUTE, one);
      assert.ok(broken.received.length >= 3 && broken.received.length <= 6, `${broken.received.length}`);
      const waiting = (await one.alerts.store.list()).items[0]?.messages ?? [];
      assert.deepEqual(
        waiting.map(({ channel, state, error }) => [channel, state, error]),
        [
          ['webhook:w0', 'pending', 'the server responded with status 500'],
          ['webhook:w1', 'sent', null],
        ],
      );

      // The message that it is resolved waits for the first one.
      one.seen.now = FINE;
      await pass(clock, 2 * MINUTE, one);
      assert.deepEqual(messages(good), ['alert.firing disk_low', 'alert.resolved disk_low']);
      assert.ok(messages(broken).every((each) => each === 'alert.firing disk_low'));
      broken.respond = (response) => response.writeHead(200).end();
      await pass(clock, 10 * MINUTE, one);
      assert.doesNotMatch(one.log(), /cannot read or update/);
      assert.deepEqual(messages(broken).slice(-2), ['alert.firing disk_low', 'alert.resolved disk_low']);
      const ids = new Set(broken.received.slice(0, -1).map(({ headers }) => headers['webhook-id']));
      assert.equal(ids.size, 1);
      assert.deepEqual(one.alerts.sent.get('webhook:w1'), { sent: 2, failed: 0 });
      assert.equal(good.received.length, 2);
    });

    test('each of many messages is sent once by two instances that check at the same time', async () => {
      await using database = await kind.open();
      await using other = await database.again();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      await using one = testInstance(database, { clock, urls: [receiver.url] });
      await using two = testInstance(other, { clock, urls: [receiver.url] });
      const keys = Array.from({ length: 30 }, (_, index) => `disk_low:node-${index}`);
      // Background statements do not wait long for the other instance; the service tries again at the next check.
      const fire = async (store: AlertStore, key: string): Promise<boolean> => {
        try {
          return await fireOne(store, key);
        } catch (error) {
          if (error instanceof DatabaseError && error.fault === 'busy') return await fire(store, key);
          throw error;
        }
      };
      const fired = await Promise.all(
        [one, two].flatMap(({ alerts }) => keys.map((key) => fire(alerts.store, key))),
      );
      assert.equal(fired.filter(Boolean).length, keys.length);
      await until(async () => {
        await Promise.all([one.check(), two.check()]);
        return receiver.received.length >= keys.length;
      });
      await Promise.all([one.check(), two.check()]);
      const titles = receiver.received.map(({ json }) => String(json.data['title']));
      assert.deepEqual(titles.toSorted(), keys.toSorted());
    });

    test('a channel that does not respond delays neither checks nor other channels', async () => {
      await using database = await kind.open();
      await using silent = await startWebhookReceiver();
      await using good = await startWebhookReceiver();
      silent.respond = () => {};
      const clock = { now: NOW };
      const urls = [silent.url, good.url];
      await using one = testInstance(database, { clock, urls, timeoutMs: 500 });
      one.seen.now = FULL;
      await one.alerts.check();
      await until(() => good.received.length === 1 && silent.received.length === 1);
      await one.alerts.check();
      await one.alerts.idle();
      const [message] = (await one.alerts.store.list()).items[0]?.messages ?? [];
      assert.deepEqual([message?.state, message?.error], ['pending', 'no response within 0.5 s']);
    });

    test('a message fails after the last attempt', async () => {
      await using database = await kind.open();
      await using broken = await startWebhookReceiver();
      broken.respond = (response) => response.writeHead(503).end();
      const clock = { now: NOW };
      await using one = testInstance(database, { clock, urls: [broken.url] });
      one.seen.now = FULL;
      for (let hour = 0; hour < 30; hour++) {
        await one.check();
        clock.now += 61 * MINUTE;
      }
      const message = (await one.alerts.store.list()).items[0]?.messages[0];
      assert.equal(message?.state, 'failed');
      assert.equal(message.attempts, broken.received.length);
      assert.equal(pauseAfter(message.attempts, 0), null);
    });

    test('a message of an instance that crashed while sending is sent again with the same ID', async () => {
      await using database = await kind.open();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      await using crashed = testInstance(database, { clock, urls: [] });
      await using one = testInstance(database, { clock, urls: [receiver.url] });
      assert.equal(await fireOne(crashed.alerts.store, 'disk_low:x'), true);
      assert.equal(await fireOne(one.alerts.store, 'disk_low:x'), false);
      const claimed = await crashed.alerts.store.claim('webhook:w0');
      await one.check();
      assert.equal(receiver.received.length, 0);
      clock.now += CLAIM_MS;
      await one.check();
      assert.equal(receiver.received[0]?.headers['webhook-id'], claimed?.id);
      // What the crashed instance would have recorded no longer counts.
      assert.ok(claimed);
      await crashed.alerts.store.finish(claimed, { sent: false, error: 'late', retryInMs: null });
      const message = (await one.alerts.store.list()).items[0]?.messages[0];
      assert.deepEqual([message?.state, message?.attempts], ['sent', 2]);
    });

    test('silenced alerts are listed but not sent; what still fires is sent when the silence ends', async () => {
      await using database = await kind.open();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      await using one = testInstance(database, { clock, urls: [receiver.url] });
      const { store } = one.alerts;
      await store.silence({ type: 'disk_low' }, clock.now + 10 * MINUTE, operator);
      one.seen.now = FULL;
      await one.check();
      const [listed] = (await store.list()).items;
      assert.deepEqual(
        [listed?.silencedUntil, listed?.messages.map(({ state }) => state)],
        [NOW + 10 * MINUTE, ['silenced']],
      );
      await pass(clock, 9 * MINUTE, one);
      assert.equal(receiver.received.length, 0);
      await pass(clock, 2 * MINUTE, one);
      assert.deepEqual(messages(receiver), ['alert.firing disk_low']);
      assert.deepEqual(await store.silences(), []);

      // One alert, by its ID. It was sent before, so its receivers learn that it is over.
      const silence = await store.silence({ alertId: listed?.id }, clock.now + 30 * DAY, operator);
      assert.equal(silence.target, listed?.condition);
      one.seen.now = FINE;
      await pass(clock, 2 * MINUTE, one);
      assert.deepEqual(messages(receiver), ['alert.firing disk_low', 'alert.resolved disk_low']);
      one.seen.now = FULL;
      await pass(clock, MINUTE, one);
      // What nobody has heard of has no end.
      one.seen.now = FINE;
      await pass(clock, 2 * MINUTE, one);
      one.seen.now = FULL;
      await pass(clock, MINUTE, one);
      assert.equal(receiver.received.length, 2);
      const states = (await store.list()).items.map((item) => item.messages.map(({ state }) => state));
      assert.deepEqual(states, [['silenced'], ['silenced'], ['sent', 'sent']]);
      // A silence may last longer than a message may wait.
      clock.now += 3 * DAY;
      await one.check();
      for (let count = 0; count < 2; count++) {
        assert.equal(await store.unsilence({ alertId: listed?.id }, operator), listed?.condition);
      }
      await one.check();
      assert.deepEqual(messages(receiver).slice(2), ['alert.firing disk_low']);
      const audit = await listAudit(database, { actor: operator.id });
      // Entries of the same millisecond are in any order.
      assert.deepEqual(
        new Set(audit.items.map(({ action, subject }) => `${action} ${subject}`)),
        new Set([
          `alert.unsilence alert:${listed?.condition}`,
          `alert.silence alert:${listed?.condition}`,
          'alert.silence alert:disk_low',
        ]),
      );

      for (const [target, until, param] of [
        [{ type: 'disk' }, clock.now + 1, 'type'],
        [{ alertId: 'x' }, clock.now + 1, 'alert_id'],
        [{}, clock.now + 1, 'type'],
        [{ type: 'disk_low' }, clock.now, 'until'],
        [{ type: 'disk_low' }, clock.now + 400 * DAY, 'until'],
      ] as const) {
        await assert.rejects(store.silence(target, until, operator), { param });
      }
    });

    test('a silence during an attempt neither sends the message twice nor keeps its end from being sent', async () => {
      await using database = await kind.open();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      await using one = testInstance(database, { clock, urls: [receiver.url] });
      const { store } = one.alerts;
      const waiting: ServerResponse[] = [];
      receiver.respond = (response) => void waiting.push(response);
      one.seen.now = FULL;
      await one.alerts.check();
      await until(() => waiting.length === 1);
      await store.silence({ type: 'disk_low' }, clock.now + 10 * MINUTE, operator);
      receiver.respond = (response) => response.writeHead(204).end();
      receiver.respond(...(waiting as [ServerResponse]));
      await one.alerts.idle();
      await store.unsilence({ type: 'disk_low' }, operator);
      await pass(clock, MINUTE, one);
      assert.deepEqual(messages(receiver), ['alert.firing disk_low']);
      await store.silence({ type: 'disk_low' }, clock.now + 10 * MINUTE, operator);
      one.seen.now = FINE;
      await pass(clock, 2 * MINUTE, one);
      assert.deepEqual(messages(receiver), ['alert.firing disk_low', 'alert.resolved disk_low']);
    });

    test('a message that takes longer than its lease is sent once', async () => {
      await using database = await kind.open();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      await using one = testInstance(database, { clock, urls: [receiver.url] });
      await using two = testInstance(database, { clock, urls: [receiver.url] });
      const waiting: ServerResponse[] = [];
      receiver.respond = (response) => void waiting.push(response);
      one.seen.now = FULL;
      await one.alerts.check();
      await until(() => waiting.length === 1);
      for (let passed = 0; passed < 3 * CLAIM_MS; passed += 10 * SECOND) {
        clock.now += 10 * SECOND;
        await one.alerts.check();
        await two.check();
      }
      waiting[0]?.writeHead(204).end();
      await one.check();
      assert.equal(receiver.received.length, 1);
      const [message] = (await one.alerts.store.list()).items[0]?.messages ?? [];
      assert.deepEqual([message?.state, message?.attempts], ['sent', 1]);
    });

    test('an alert does not end or begin because the clocks of instances differ', async () => {
      await using database = await kind.open();
      await using other = await database.again();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      await using one = testInstance(database, { clock, urls: [receiver.url], aheadMs: -70 * SECOND });
      await using two = testInstance(other, { clock, urls: [receiver.url], aheadMs: 70 * SECOND });
      one.seen.now = FULL;
      await pass(clock, 10 * MINUTE, one, two);
      assert.deepEqual(messages(receiver), ['alert.firing disk_low']);
      one.seen.now = FINE;
      await pass(clock, 2 * MINUTE, one, two);
      assert.deepEqual(messages(receiver).slice(1), ['alert.resolved disk_low']);
    });

    test('a restart while a replica is down neither resolves its alert nor fires another one', async () => {
      await using database = await kind.open();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      const options = { clock, urls: [receiver.url], settings: { replicaDownMs: 5 * MINUTE } };
      const state = { state: 'down', reason: 'connect ECONNREFUSED', retryInMs: null } as const;
      const replica = { model: 'a/b', name: 'a/b#0', address: 'http://gpu-1:8000', failing: true };
      const down = { ...FINE, replicas: [{ ...replica, lastCrash: null, state }] };
      {
        await using one = testInstance(database, options);
        one.seen.now = down;
        await pass(clock, 6 * MINUTE, one);
      }
      await using restarted = testInstance(database, options);
      restarted.seen.now = down;
      await pass(clock, 10 * MINUTE, restarted);
      assert.deepEqual(messages(receiver), ['alert.firing replica_down']);
      restarted.seen.now = FINE;
      await pass(clock, 2 * MINUTE, restarted);
      assert.deepEqual(messages(receiver).slice(1), ['alert.resolved replica_down']);
    });

    test('a search that fails keeps its alerts, and neither stops others nor counts as an outage', async () => {
      await using database = await kind.open();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      const faulty = { isDown: false };
      await using one = testInstance(failing(database, faulty, 'reports'), {
        clock,
        urls: [receiver.url],
        limits: { tokensPerDay: 1000 },
      });
      const day = Math.floor(NOW / DAY);
      await addUsage(database, { day, model: 'a/b', tokens: 900, picoUsd: 0n });
      one.alerts.recordRequest(SUCCEEDED);
      await one.check();
      faulty.isDown = true;
      one.seen.now = FULL;
      await pass(clock, 15 * MINUTE, one);
      assert.deepEqual(messages(receiver), ['alert.firing budget_80', 'alert.firing disk_low']);
      assert.equal(one.alerts.firing, 2);
      assert.equal(one.log().match(/cannot check for some alerts/g)?.length, 2);

      // The same in the other direction.
      faulty.isDown = false;
      one.alerts.recordRequest(SUCCEEDED);
      await addUsage(database, { day, model: 'a/b', tokens: 100, picoUsd: 0n });
      one.fail.now = new Error('statfs failed');
      await pass(clock, 2 * MINUTE, one);
      assert.deepEqual(messages(receiver).slice(2), ['alert.firing budget_100']);
      assert.equal(one.alerts.firing, 2);
    });

    test('an account whose own limits are damaged has no budgets, because its requests are refused', async () => {
      await using database = await kind.open();
      const day = Math.floor(NOW / DAY);
      await addUsage(database, { day, model: 'a/b', tokens: 900, picoUsd: 0n });
      const plans = new Plans({ plans: { standard: { tokensPerDay: 1000 } }, defaultPlan: 'standard' });
      const found = () => budgetConditions(database, plans, [DEFAULT_ACCOUNT_ID], NOW);
      assert.deepEqual(
        (await found()).map(({ type }) => type),
        ['budget_80'],
      );
      await database.kysely.updateTable('accounts').set({ limits: '{"tokensPerDay":"x"}' }).execute();
      assert.deepEqual(await found(), []);
    });

    test('a budget is reported once per period at 80% and at 100%, for accounts with requests', async () => {
      await using database = await kind.open();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      const limits = { tokensPerDay: 1000, models: { 'a/b': { usdPerMonth: '2' } } };
      await using one = testInstance(database, { clock, urls: [receiver.url], limits });
      const use = async (model: string, tokens: number, picoUsd: bigint) => {
        await addUsage(database, { day: Math.floor(clock.now / DAY), model, tokens, picoUsd });
        one.alerts.recordRequest({ ...SUCCEEDED, model });
        await pass(clock, MINUTE, one);
      };
      await use('a/b', 799, 0n);
      assert.deepEqual(messages(receiver), []);
      await use('c/d', 1, 0n);
      await use('c/d', 50, 0n);
      assert.deepEqual(messages(receiver), ['alert.firing budget_80']);
      assert.match(String(receiver.received[0]?.json.data['text']), /^800 tokens of 1,000 tokens are used/);
      await use('c/d', 150, 2_100_000_000_000n);
      assert.deepEqual(messages(receiver).slice(1), ['alert.firing budget_100']);
      await use('a/b', 0, 2_000_000_000_000n);
      assert.deepEqual(messages(receiver).slice(2), ['alert.firing budget_100']);
      assert.match(
        String(receiver.received[2]?.json.data['title']),
        /has used up its monthly budget for a\/b/,
      );

      // The next day, the budget of the day is new; that of the month is still used up.
      clock.now += DAY;
      await pass(clock, 3 * MINUTE, one);
      await use('c/d', 900, 0n);
      assert.deepEqual(messages(receiver).slice(3), ['alert.firing budget_80']);
    });

    test('a key that is about to expire is reported once, unless it was short-lived from the start', async () => {
      await using database = await kind.open();
      await using receiver = await startWebhookReceiver();
      const clock = { now: Date.now() };
      await using one = testInstance(database, { clock, urls: [receiver.url] });
      const create = (name: string, days: number) =>
        createKey(database, {
          accountId: DEFAULT_ACCOUNT_ID,
          kind: 'caller',
          name,
          expiresAt: clock.now + days * DAY,
        });
      const { record } = await create('long', 30);
      await create('short', 5);
      await one.check();
      clock.now += 22 * DAY;
      await one.check();
      assert.deepEqual(messages(receiver), []);
      clock.now += 1 * DAY;
      await one.check();
      await pass(clock, 20 * MINUTE, one);
      assert.deepEqual(messages(receiver), ['alert.firing key_expiring']);
      assert.match(String(receiver.received[0]?.json.data['title']), /^The key long of /);
      // Members can change the expiry as often as they want.
      const expiresAt = record.expires_at ?? 0;
      const sameDay = expiresAt - Math.ceil((expiresAt % DAY) / 2);
      await changeKey(database, record.id, () => ({ expiresAt: sameDay }), operator);
      await pass(clock, 20 * MINUTE, one);
      assert.equal(receiver.received.length, 1);
    });

    test('an account with many keys does not hide those of others that are about to expire', async () => {
      await using database = await kind.open();
      const by = { id: 'service', ip: null };
      const { id: accountId } = await createAccount(database, { name: 'acme' }, by);
      const now = Date.now();
      for (let count = 0; count < 60; count++)
        await createKey(database, { name: `${count}`, accountId, expiresAt: now + 10 * DAY + count });
      await createKey(database, { name: 'other', expiresAt: now + 11 * DAY });
      const conditions = await keyConditions(database, 7, now + 5 * DAY);
      assert.equal(conditions.length, 51);
      assert.match(conditions.at(-1)?.title ?? '', /^The key other of /);
    });

    test('alerts about the database are sent without it, and are listed and resolved when it works again', async () => {
      await using database = await kind.open();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      const faulty = { isDown: false };
      await using one = testInstance(failing(database, faulty), { clock, urls: [receiver.url] });
      await one.check();
      faulty.isDown = true;
      await pass(clock, 30 * SECOND, one);
      assert.deepEqual(messages(receiver), []);
      receiver.respond = (response) => response.writeHead(500).end();
      await pass(clock, 10 * SECOND, one);
      receiver.respond = (response) => response.writeHead(200).end();
      await pass(clock, 10 * MINUTE, one);
      assert.deepEqual(messages(receiver), Array(2).fill('alert.firing database_unavailable'));
      assert.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 1);

      faulty.isDown = false;
      await pass(clock, 3 * MINUTE, one);
      assert.deepEqual(messages(receiver).slice(2), ['alert.resolved database_unavailable']);
      const { items } = await one.alerts.store.list();
      assert.deepEqual(
        items.map(({ type, resolvedAt, messages: sent }) => [
          type,
          resolvedAt !== null,
          sent.map(({ state }) => state),
        ]),
        [['database_unavailable', true, ['sent', 'sent']]],
      );
    });

    test('a database that fails again and again has one alert, and a restart continues with it', async () => {
      await using database = await kind.open();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      const faulty = { isDown: false };
      const start = () =>
        testInstance(failing(database, faulty), { clock, urls: [receiver.url], home: database.home });
      {
        await using one = start();
        await one.check();
        for (let count = 0; count < 10; count++) {
          faulty.isDown = true;
          await pass(clock, 40 * SECOND, one);
          faulty.isDown = false;
          await pass(clock, 10 * SECOND, one);
        }
        assert.deepEqual(messages(receiver), ['alert.firing database_unavailable']);
        await pass(clock, 3 * MINUTE, one);
        assert.deepEqual(messages(receiver).slice(1), ['alert.resolved database_unavailable']);
        faulty.isDown = true;
        await pass(clock, 2 * MINUTE, one);
      }
      await using restarted = start();
      await pass(clock, 5 * MINUTE, restarted);
      assert.deepEqual(messages(receiver).slice(2), ['alert.firing database_unavailable']);
      faulty.isDown = false;
      await pass(clock, 3 * MINUTE, restarted);
      assert.deepEqual(messages(receiver).slice(3), ['alert.resolved database_unavailable']);
      const [, , fired, over] = receiver.received.map(({ json }) => json.data['id']);
      assert.equal(fired, over);
      assert.deepEqual(
        readdirSync(database.home).filter((name) => name.startsWith('outage')),
        [],
      );
    });

    test('many alerts of accounts leave room for others, and a dead channel does not use up the queue of others', async () => {
      await using database = await kind.open();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW };
      const limits = { tokensPerDay: 1000 };
      await using one = testInstance(database, { clock, urls: [receiver.url], limits });
      const ids = Array.from({ length: 999 }, (_, index) => `0${index}`);
      const times = { fired_at: NOW, seen_at: NOW, resolved_at: null };
      const texts = { type: 'budget_80', title: 'x', body: 'x', ...times };
      await database.kysely
        .insertInto('alerts')
        .values(ids.map((id) => ({ id, dedupe_key: id, condition: `budget_80:${id}:`, ...texts })))
        .execute();
      const waiting = { event: 'firing', channel: 'webhook:dead', state: 'pending', attempts: 1 } as const;
      for (const event of ['firing', 'resolved'] as const) {
        const message = { ...waiting, event, created_at: NOW, next_at: NOW, sent_at: null, error: null };
        await database.kysely
          .insertInto('alert_messages')
          .values(ids.map((id) => ({ id: `${event}${id}`, alert_id: id, ...message })))
          .execute();
      }
      await addUsage(database, { day: Math.floor(NOW / DAY), model: 'a/b', tokens: 900, picoUsd: 0n });
      one.alerts.recordRequest(SUCCEEDED);
      await one.check();
      one.seen.now = FULL;
      await pass(clock, 10 * SECOND, one);
      assert.deepEqual(messages(receiver), ['alert.firing disk_low']);
    });

    test('budgets are checked after the clock was set back', async () => {
      await using database = await kind.open();
      await using receiver = await startWebhookReceiver();
      const clock = { now: NOW + 365 * DAY };
      const limits = { tokensPerDay: 1000 };
      await using one = testInstance(database, { clock, urls: [receiver.url], limits });
      await one.check();
      clock.now = NOW;
      await addUsage(database, { day: Math.floor(NOW / DAY), model: 'a/b', tokens: 900, picoUsd: 0n });
      one.alerts.recordRequest(SUCCEEDED);
      await one.check();
      assert.deepEqual(messages(receiver), ['alert.firing budget_80']);
    });

    test('resolved alerts are deleted after `keepDays`, types that are off do not fire, and there is a page of each size', async () => {
      await using database = await kind.open();
      const clock = { now: NOW };
      await using one = testInstance(database, { clock, settings: { disabled: ['disk_low'], keepDays: 40 } });
      one.seen.now = {
        ...FULL,
        backup: { everyHours: 1, lastAt: null, failedAt: NOW, reason: 'no space' },
        ledger: { writable: false, sinceMs: MINUTE, waiting: 0, reason: 'the disk is full' },
      };
      await one.check();
      const first = await one.alerts.store.list({ limit: 1 });
      const second = await one.alerts.store.list({ limit: 1, cursor: first.nextCursor });
      assert.deepEqual([...first.items, ...second.items].map(({ type }) => type).toSorted(), [
        'backup_failed',
        'ledger_unwritable',
      ]);
      assert.equal(second.nextCursor, null);
      await assert.rejects(one.alerts.store.list({ cursor: 'x' }), { param: 'cursor' });
      one.seen.now = FINE;
      await pass(clock, 3 * MINUTE, one);
      clock.now += 41 * DAY;
      await one.check();
      assert.deepEqual((await one.alerts.store.list()).items, []);
    });
  });
}

test('times are those of the PostgreSQL server', async (t) => {
  const postgres = testDatabases().find(({ name }) => name === 'PostgreSQL');
  if (postgres === undefined) return t.skip('PostgreSQL is not available');
  await using database = await postgres.open();
  t.mock.timers.enable({ apis: ['Date'], now: 0 });
  const store = new AlertStore(database);
  assert.equal(await fireOne(store, 'disk_low:x'), true);
  assert.ok(((await store.list()).items[0]?.firedAt ?? 0) > Date.UTC(2020));
  assert.ok(await store.claim('webhook:w0'));
  assert.equal(await store.claim('webhook:w0'), null);
});

test('emails are sent again with the same Message-ID, and their addresses are not in the log', async () => {
  await using database = await SQLITE.open();
  await using server = await startMailServer();
  const { port } = /port: (?<port>\d+)/.exec(server.yaml)?.groups ?? {};
  const smtp = { host: '127.0.0.1', port: Number(port), secure: false, user: 'sluice', passwordEnv: 'X' };
  await using mailer = new Mailer(
    { ...smtp, from: 'Sluice <sluice@example.org>' },
    new Secret('mail password'),
    SILENT,
  );
  const clock = { now: NOW };
  await using one = testInstance(database, { clock, settings: { email: ['ops@example.org'] }, mailer });
  server.refuses = '<ops@example.org>: mailbox is full';
  one.seen.now = FULL;
  await one.check();
  assert.match(one.log(), /"channel":"email".*<…>: mailbox is full/);
  assert.doesNotMatch(one.log(), /@/);
  const [message] = (await one.alerts.store.list()).items[0]?.messages ?? [];
  assert.match(message?.error ?? '', /<ops@example\.org>: mailbox is full/);
  server.refuses = null;
  await pass(clock, MINUTE, one);
  const [first, second, ...more] = server.received.map(({ messageId }) => messageId);
  assert.match(first ?? '', /^<[\da-f-]{36}@example\.org>$/);
  assert.deepEqual([second, more], [first, []]);
});

/** Fires an alert with a message to the first webhook. Returns whether it fired. */
async function fireOne(store: AlertStore, key: string): Promise<boolean> {
  const { fired } = await store.record({
    found: [{ type: 'disk_low', key, title: key, text: 'Full.' }],
    kept: new Set(),
    outage: null,
    resolves: false,
    channelsFor: () => ['webhook:w0'],
  });
  return fired.length === 1;
}

/** Adds settled usage of the default account. */
async function addUsage(
  { kysely }: Database,
  { day, model, tokens, picoUsd }: { day: number; model: string; tokens: number; picoUsd: bigint },
): Promise<void> {
  const key_id = `key_${Math.random()}`;
  await kysely
    .insertInto('usage_days')
    .values({
      account_id: DEFAULT_ACCOUNT_ID,
      day,
      model,
      key_id,
      requests: 1,
      errors: 0,
      aborted: 0,
      interrupted: 0,
      billed_tokens: tokens,
      cost_pico: picoUsd,
      prompt_tokens: tokens,
      cached_tokens: 0,
      cache_miss_tokens: 0,
      completion_tokens: 0,
      reasoning_tokens: 0,
    })
    .execute();
}
