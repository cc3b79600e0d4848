import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { temporaryFolder } from '../harness.ts';
import { SQLITE } from '../support/servers.ts';
import { failing, FINE, testInstance, type TestInstance } from './fixture.ts';
import { startWebhookReceiver } from '../support/webhook-receiver.ts';

const SECOND = 1000;
const MINUTE = 60_000;
const FULL = { ...FINE, freeBytes: 1000 };
const by = { id: 'user:usr_1', ip: null };

const index = fc.nat(1);
const action = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('check' as const), index, steps: fc.nat(8) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('see' as const), index, full: fc.boolean() }) },
  fc.record({ do: fc.constant('silence' as const), minutes: fc.integer({ min: 1, max: 10 }) }),
  fc.record({ do: fc.constant('unsilence' as const) }),
  { weight: 2, arbitrary: fc.record({ do: fc.constant('database' as const), index, down: fc.boolean() }) },
  fc.record({ do: fc.constant('restart' as const), index }),
  fc.record({ do: fc.constant('receiver' as const), refuses: fc.boolean() }),
);

test('whatever happens, a receiver that learns of an alert learns of it once, and then once that it is resolved', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { minLength: 10, maxLength: 30 }), async (actions) => {
      await using database = await SQLITE.open();
      await using receiver = await startWebhookReceiver();
      await using folder = await temporaryFolder();
      const clock = { now: Date.UTC(2026, 10, 23, 12) };
      const faults = [{ isDown: false }, { isDown: false }];
      const start = (which: number): TestInstance => {
        const home = join(folder.path, String(which));
        mkdirSync(home, { recursive: true });
        return testInstance(failing(database, faults[which] ?? { isDown: false }), {
          clock,
          urls: [receiver.url],
          home,
          aheadMs: which * 70 * SECOND,
        });
      };
      const instances = [start(0), start(1)];
      const accepted: { id: string; alertId: string; type: string }[] = [];
      let refuses = false;
      receiver.respond = (response) => {
        const webhook = receiver.received.at(-1);
        assert.ok(webhook);
        if (refuses) return void response.writeHead(503).end();
        const id = String(webhook.headers['webhook-id']);
        accepted.push({ id, alertId: String(webhook.json.data['id']), type: webhook.json.type });
        response.writeHead(204).end();
      };
      const store = () => instances[0]!.alerts.store; // Both exist.
      for (const each of actions) {
        const instance = 'index' in each ? instances[each.index]! : instances[0]!;
        switch (each.do) {
          case 'check':
            for (let step = 0; step <= each.steps; step++) {
              clock.now += 10 * SECOND;
              await instance.check();
            }
            break;
          case 'see':
            instance.seen.now = each.full ? FULL : FINE;
            break;
          case 'silence':
            await store().silence({ type: 'disk_low' }, clock.now + each.minutes * MINUTE, by);
            break;
          case 'unsilence':
            await store().unsilence({ type: 'disk_low' }, by);
            break;
          case 'database':
            faults[each.index]!.isDown = each.down;
            break;
          case 'restart': {
            const { seen } = instance;
            await instance[Symbol.asyncDispose]();
            instances[each.index] = start(each.index);
            instances[each.index]!.seen.now = seen.now;
            break;
          }
          case 'receiver':
            refuses = each.refuses;
        }
      }

      // Everything is fine again.
      refuses = false;
      await store().unsilence({ type: 'disk_low' }, by);
      for (const fault of faults) fault.isDown = false;
      for (const instance of instances) instance.seen.now = FINE;
      for (const ms of [...Array(5).fill(40 * SECOND), 61 * MINUTE, 61 * MINUTE]) {
        clock.now += ms;
        for (const instance of instances) await instance.check();
      }
      const { items } = await store().list({ limit: 100 });
      const rows = new Set(items.map(({ id }) => id));
      assert.ok(accepted.every(({ alertId }) => rows.has(alertId)));
      for (const { id, resolvedAt, messages } of items) {
        assert.notEqual(resolvedAt, null);
        const states = messages.map(({ state }) => state);
        assert.ok(!states.includes('pending'));
        if (states.includes('failed')) continue;
        const arrived = accepted.filter(({ alertId }) => alertId === id).map(({ type }) => type);
        assert.deepEqual(arrived, states.includes('silenced') ? [] : ['alert.firing', 'alert.resolved']);
      }
      for (const instance of instances) await instance[Symbol.asyncDispose]();
    }),
    { numRuns: 4 },
  );
});
