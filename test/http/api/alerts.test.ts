import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { SECRET } from '../../alerts/fixture.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhook-receiver.ts';
import { chat, post, scriptedYaml, startService, until, type TestService } from '../../harness.ts';
import type { Contract } from '../../../src/http/api/contract.ts';
import { Management } from '../../management.ts';
import { run } from '../../commands/program.ts';

type ResponseOf<Id extends keyof Contract> = Contract[Id]['response'];

let disposal: AsyncDisposableStack;
let service: TestService;
let management: Management;
let good: WebhookReceiver;
let broken: WebhookReceiver;
before(async () => {
  await using owned = new AsyncDisposableStack();
  good = owned.use(await startWebhookReceiver());
  broken = owned.use(await startWebhookReceiver());
  broken.respond = (response) => response.writeHead(500).end();
  const alerts = `
alerts:
  diskFreeBytes: ${Number.MAX_SAFE_INTEGER}
  errorMinRequests: 3
  disabled: [replica_down, backup_late]
  webhooks:
    - { name: good, url: '${good.url}/secret-path', secretEnv: WEBHOOK_SECRET }
    - { name: broken, urlEnv: BROKEN_URL, format: slack }
`;
  const env = { WEBHOOK_SECRET: SECRET, BROKEN_URL: broken.url };
  const away = `  - id: far/away\n    replicas: [{ url: 'http://127.0.0.1:9', dialect: vllm }]\n`;
  service = owned.use(await startService(scriptedYaml({}, away + alerts), env));
  management = await Management.of(service);
  disposal = owned.move();
});
after(() => disposal.disposeAsync());

const list = async () => (await management.call('GET', '/api/alerts')) as unknown as ResponseOf<'listAlerts'>;
const settings = async () =>
  (await management.call('GET', '/api/alerts/settings')) as unknown as ResponseOf<'readAlertSettings'>;

test('an alert is listed with the messages of each channel', async () => {
  await until(() => good.received.length === 1);
  // The result of an attempt is saved after the receiver has responded.
  const isTried = ({ state, error }: { state: string; error: string | null }) =>
    state === 'sent' || error !== null;
  await until(async () => (await list()).data[0]?.messages.every(isTried) ?? false);
  const [alert] = (await list()).data;
  assert.deepEqual([alert?.type, alert?.severity, alert?.resolved_at], ['disk_low', 'critical', null]);
  assert.deepEqual(
    alert?.messages.map(({ channel, event, state, error }) => [channel, event, state, error]),
    [
      ['webhook:broken', 'firing', 'pending', 'the server responded with status 500'],
      ['webhook:good', 'firing', 'sent', null],
    ],
  );
  assert.equal(good.received[0]?.json.data['id'], alert.id);
  assert.equal(good.received[0]?.json.data['service'], service.url);
});

test('the settings show channels without paths, types, thresholds and the number of firing alerts', async () => {
  await until(async () => (await settings()).firing === 1);
  const { channels, types, thresholds } = await settings();
  assert.deepEqual(channels, [
    { id: 'webhook:good', target: good.url },
    { id: 'webhook:broken', target: broken.url },
  ]);
  assert.deepEqual(
    types.filter(({ enabled }) => !enabled).map(({ type }) => type),
    ['replica_down', 'backup_late'],
  );
  assert.equal(thresholds.error_min_requests, 3);
});

test('a test reports the result of each channel', async () => {
  const { data } = (await management.call('POST', '/api/alerts/test')) as unknown as ResponseOf<'testAlerts'>;
  assert.deepEqual(
    data.map(({ channel, error }) => [channel, error]),
    [
      ['webhook:good', null],
      ['webhook:broken', 'the server responded with status 500'],
    ],
  );
  assert.equal(good.received.at(-1)?.json.type, 'alert.test');
});

test('a type and an alert are silenced and unsilenced', async () => {
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const silence = (body: object) => management.call('POST', '/api/alerts/silence', body);
  assert.deepEqual(await silence({ type: 'backup_failed', until }), {
    target: 'backup_failed',
    silenced_until: until,
  });
  const { types } = await settings();
  assert.equal(types.find(({ type }) => type === 'backup_failed')?.silenced_until, until);
  assert.deepEqual(await management.call('POST', '/api/alerts/unsilence', { type: 'backup_failed' }), {
    target: 'backup_failed',
    silenced_until: null,
  });
  const [alert] = (await list()).data;
  await silence({ alert_id: alert?.id, until });
  const [silenced] = (await list()).data;
  assert.equal(silenced?.silenced_until, until);
  await assert.rejects(silence({ type: 'x', until }), /: 404 .*There is no type of alerts `x`/);
  await assert.rejects(silence({ until }), /: 400 .*Either `type` or `alert_id` is required/);
  await assert.rejects(silence({ type: 'disk_low', until: '2020-01-01T00:00:00Z' }), /: 400 .*`until`/);
});

test('a failing model is reported, and the metrics count alerts and messages', async () => {
  for (let count = 0; count < 3; count++) {
    const response = await post(
      service,
      '/v1/chat/completions',
      chat('hi', { model: 'far/away', max_tokens: 5 }),
    );
    assert.equal(response.status, 503);
    await response.text();
  }
  await until(async () => (await list()).data.some(({ condition }) => condition === 'error_rate:far/away'));
  let text = '';
  // The number is that of the end of a check.
  await until(async () => {
    const headers = { authorization: `Bearer ${management.admin}` };
    text = await (await fetch(`${service.url}/metrics`, { headers })).text();
    return /^sluice_alerts_firing [2-9]$/m.test(text);
  });
  assert.match(text, /^sluice_alert_messages_total\{channel="webhook:good",outcome="sent"\} [2-9]$/m);
  assert.match(text, /^sluice_alert_messages_total\{channel="webhook:broken",outcome="failed"\} [2-9]$/m);
});

test('the command line lists, tests and silences alerts of the same database', async () => {
  const { env } = service;
  const listed = await run(['alerts', 'list'], env);
  assert.match(listed.stdout, /^ID +FIRED +RESOLVED +TYPE +SENT +TITLE\n/);
  assert.match(listed.stdout, /\n[\w-]{36} +\S+Z +- +disk_low +1\/2 +Only \S+ GiB are free /);
  const json = JSON.parse((await run(['alerts', 'list', '--json', '--limit', '1'], env)).stdout);
  assert.deepEqual([json.length, json[0].type], [1, 'error_rate']);
  const tested = await run(['alerts', 'test'], env);
  assert.equal(tested.code, 1);
  assert.match(tested.stdout, /webhook:good +http\S+ +sent in \d+ ms\n/);
  assert.match(tested.stdout, /webhook:broken +http\S+ +the server responded with status 500\n/);
  const silenced = await run(['alerts', 'silence', 'key_expiring', '--hours', '2'], env);
  assert.match(silenced.stderr, /^Silenced key_expiring until \S+Z\.\n$/);
  const ended = await run(['alerts', 'unsilence', 'key_expiring'], env);
  assert.equal(ended.stderr, 'key_expiring is not silenced any more.\n');
  const unknown = await run(['alerts', 'silence', 'disk', '--hours', '2'], env);
  assert.deepEqual([unknown.code, unknown.stdout], [1, '']);
  assert.match(unknown.stderr, /There is no type of alerts `disk`\. Types: budget_80, /);
  const none = await run(['alerts', 'test'], { SLUICE_HOME: service.home });
  assert.deepEqual([none.code, none.stdout], [1, '']);
  assert.match(none.stderr, /No channels are configured: set `alerts\.email` or `alerts\.webhooks`/);
});
