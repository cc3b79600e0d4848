import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { Channels, type Message } from '../../src/alerts/channels.ts';
import { pauseAfter, MAX_ATTEMPTS } from '../../src/alerts/outbox.ts';
import { signedHeaders } from '../../src/alerts/signature.ts';
import { alertsSchema, WEBHOOK_SECRET } from '../../src/config/alerts.ts';
import { configSchema } from '../../src/config/schema.ts';
import { Mailer } from '../../src/identity/mailer.ts';
import { SILENT } from '../../src/support/log.ts';
import { Secret } from '../../src/support/secret.ts';
import { addressOf, listen } from '../models/fake-hub.ts';
import { startMailServer } from '../identity/mail-server.ts';
import { SECRET } from './fixture.ts';
import { startWebhookReceiver } from '../support/webhook-receiver.ts';

const FIRING: Message = {
  id: '0198-1',
  event: 'firing',
  alert: {
    id: '0198-0',
    condition: 'disk_low:node-1',
    type: 'disk_low',
    title: 'Only 0.5 GiB are free on <node-1> & others',
    text: 'Free some space.',
    firedAt: Date.UTC(2026, 10, 23),
    resolvedAt: null,
  },
};

function open(
  url: string,
  webhook: object = {},
  options: { env?: NodeJS.ProcessEnv; timeoutMs?: number } = {},
) {
  return new Channels({
    settings: alertsSchema.parse({ webhooks: [{ name: 'pager', url, secretEnv: 'ALERTS', ...webhook }] }),
    secrets: new Map([
      ['ALERTS', new Secret(SECRET)],
      ['URL', new Secret(`${url}/services/T0/B0/secret`)],
    ]),
    mailer: null,
    publicUrl: () => 'https://llm.example.org',
    env: {},
    ...options,
  });
}

test('a webhook is signed over its ID, time and body, and its JSON has the alert', async () => {
  await using receiver = await startWebhookReceiver();
  await using channels = open(`${receiver.url}/hook?x=1`);
  await channels.of('webhook:pager')?.send(FIRING);
  const [webhook] = receiver.received;
  assert.ok(webhook);
  const { path, headers, body, json } = webhook;
  assert.equal(path, '/hook?x=1');
  assert.equal(headers['content-type'], 'application/json');
  assert.equal(headers['webhook-id'], FIRING.id);
  const signed = `${FIRING.id}.${String(headers['webhook-timestamp'])}.${body}`;
  const key = Buffer.from(SECRET.replace('whsec_', ''), 'base64');
  assert.equal(
    headers['webhook-signature'],
    `v1,${createHmac('sha256', key).update(signed).digest('base64')}`,
  );
  assert.deepEqual(
    [json.type, json.data],
    [
      'alert.firing',
      {
        id: '0198-0',
        alert_type: 'disk_low',
        condition: 'disk_low:node-1',
        severity: 'critical',
        title: FIRING.alert?.title,
        text: 'Free some space.',
        fired_at: '2026-11-23T00:00:00.000Z',
        resolved_at: null,
        service: 'https://llm.example.org',
      },
    ],
  );
});

test('the format `slack` has only text without markup, at a URL from the environment', async () => {
  await using receiver = await startWebhookReceiver();
  await using channels = open(receiver.url, {
    url: undefined,
    urlEnv: 'URL',
    format: 'slack',
    secretEnv: undefined,
  });
  const channel = channels.of('webhook:pager');
  await channel?.send(FIRING);
  await channel?.send({ ...FIRING, event: 'resolved' });
  await channel?.send({ id: 'x', event: 'test', alert: null });
  assert.equal(receiver.received[0]?.path, '/services/T0/B0/secret');
  assert.equal(receiver.received[0].headers['webhook-signature'], undefined);
  assert.deepEqual(receiver.received[0].json, {
    text: '*Only 0.5 GiB are free on &lt;node-1&gt; &amp; others*\nFree some space.\nhttps://llm.example.org/operator/alerts',
  });
  assert.match(receiver.received[1]?.json.text ?? '', /^\*Resolved: Only/);
  assert.match(receiver.received[2]?.json.text ?? '', /^\*Test of the alerts\*/);
  // Names of keys are chosen by members. Mattermost reads Markdown and names of groups.
  const title = 'The key @all [Sign in](https://evil.example) of bob@example.org expires';
  assert.ok(FIRING.alert);
  await channel?.send({ ...FIRING, alert: { ...FIRING.alert, title } });
  const shown = '*The key @\u200ball [Sign in]\u200b(https://evil.example) of bob@example.org expires*\n';
  assert.equal(receiver.received[3]?.json.text?.slice(0, shown.length), shown);
  // The path is a secret, so it is not shown.
  assert.equal(channel?.target, receiver.url);
});

test('webhooks are sent through the proxy of the environment, unless their host bypasses it', async () => {
  await using receiver = await startWebhookReceiver();
  await using proxy = await startWebhookReceiver();
  const env = { HTTP_PROXY: proxy.url };
  await using proxied = open('http://chat.invalid/hook', {}, { env });
  await proxied.of('webhook:pager')?.send(FIRING);
  await using direct = open(receiver.url, {}, { env: { ...env, no_proxy: '127.0.0.1' } });
  await direct.of('webhook:pager')?.send(FIRING);
  assert.deepEqual(
    proxy.received.map(({ path, headers }) => [path, headers.host]),
    [['http://chat.invalid/hook', 'chat.invalid']],
  );
  assert.equal(receiver.received.length, 1);
  // A proxy that never connects does not hold up the message.
  const waiting: Duplex[] = [];
  const silent = await listen((_, response) => response.end());
  silent.on('connect', (_, socket) => waiting.push(socket));
  await using stuck = open(
    'https://chat.invalid/hook',
    {},
    { env: { HTTPS_PROXY: addressOf(silent) }, timeoutMs: 300 },
  );
  await assert.rejects(async () => await stuck.of('webhook:pager')?.send(FIRING), {
    message: 'no response within 0.3 s',
  });
  for (const socket of waiting) socket.destroy();
  silent.close();

  for (const invalid of ['10.0.0.1:3128', 'proxy:3128', 'socks5://proxy', 'http://', ' ']) {
    await using failing = open(receiver.url, {}, { env: { HTTPS_PROXY: invalid } });
    await assert.rejects(async () => await failing.of('webhook:pager')?.send(FIRING), {
      message: 'HTTPS_PROXY must be the URL of a proxy, such as http://proxy.example.org:3128',
    });
  }
});

test('errors, redirects, hang-ups, silence and endless responses end an attempt with a reason', async () => {
  await using receiver = await startWebhookReceiver();
  await using trap = await startWebhookReceiver();
  await using channels = open(receiver.url);
  const send = async () => channels.of('webhook:pager')?.send(FIRING);
  receiver.respond = (response) => response.writeHead(404).end('<html>');
  await assert.rejects(send(), { message: 'the server responded with status 404' });
  receiver.respond = (response) => response.writeHead(307, { location: trap.url }).end();
  await assert.rejects(send(), { message: /redirect \(status 307\), which is not followed/ });
  assert.equal(trap.received.length, 0);
  receiver.respond = (response) => response.destroy();
  await assert.rejects(send(), { message: /other side closed|socket/ });
  receiver.respond = () => {};
  await using impatient = open(receiver.url, {}, { timeoutMs: 300 });
  await assert.rejects(async () => impatient.of('webhook:pager')?.send(FIRING), {
    message: 'no response within 0.3 s',
  });

  // The status is enough. The connection is closed instead of reading all of a body.
  let written = 0;
  let closed = false;
  receiver.respond = (response) => {
    response.writeHead(200).on('close', () => (closed = true));
    const more = () => {
      while (!response.destroyed && written < 1e9) {
        written += 65_536;
        if (!response.write(Buffer.alloc(65_536))) return void response.once('drain', more);
      }
    };
    more();
  };
  await send();
  assert.ok(written < 1e8 || closed, `${written} bytes were read`);

  await using unreachable = open('http://127.0.0.1:1');
  await assert.rejects(async () => unreachable.of('webhook:pager')?.send(FIRING), {
    message: /ECONNREFUSED/,
  });
});

function mailerOf({ yaml }: { yaml: string }, password: string): Mailer {
  const { port } = /port: (?<port>\d+)/.exec(yaml)?.groups ?? {};
  const smtp = { host: '127.0.0.1', port: Number(port), secure: false, from: 'sluice@example.org' };
  return new Mailer({ ...smtp, user: 'sluice', passwordEnv: 'X' }, new Secret(password), SILENT);
}

test('each address gets its own email, and a refusal of the mail server is an error', async () => {
  await using server = await startMailServer();
  const settings = alertsSchema.parse({ email: ['ops@example.org', 'night@example.org'] });
  await using mailer = mailerOf(server, 'mail password');
  const options = { settings, secrets: new Map(), publicUrl: () => 'https://llm.example.org', env: {} };
  await using channels = new Channels({ ...options, mailer });
  assert.deepEqual(
    channels.all.map(({ id }) => id),
    ['email:ops@example.org', 'email:night@example.org'],
  );
  assert.deepEqual(channels.idsFor('budget_80:acct_1:usdPerMonth::2026-11'), [
    'email:ops@example.org',
    'email:night@example.org',
  ]);
  await channels.of('email:ops@example.org')?.send(FIRING);
  const email = await server.next('ops@example.org');
  assert.equal(email.subject, '[Sluice] Only 0.5 GiB are free on <node-1> & others');
  assert.match(email.text, /Free some space\.\n\nhttps:\/\/llm\.example\.org\/operator\/alerts/);

  await using wrong = mailerOf(server, 'another');
  await using refused = new Channels({ ...options, mailer: wrong });
  await assert.rejects(async () => refused.of('email:ops@example.org')?.send(FIRING), { message: /login/i });
});

test('owners of an account get an email about its budgets, and about nothing else', async () => {
  await using server = await startMailServer();
  await using mailer = mailerOf(server, 'mail password');
  const asked: string[] = [];
  const open = (emailOwners: boolean) =>
    new Channels({
      settings: alertsSchema.parse({ emailOwners }),
      secrets: new Map(),
      mailer,
      ownerAddresses: async (account) => {
        asked.push(account);
        // Of an older version, which accepted it.
        return account === 'acct_1' ? ['mia@example.org', 'a,noor@example.org'] : [];
      },
      publicUrl: () => 'https://llm.example.org',
      env: {},
    });
  await using channels = open(true);
  const budget = 'budget_100:acct_1:usdPerMonth::2026-11';
  assert.deepEqual([channels.operators, channels.idsFor('disk_low:host')], [[], []]);
  assert.deepEqual(channels.idsFor(budget), ['owners']);
  assert.ok(FIRING.alert);
  await channels.of('owners')?.send({ ...FIRING, alert: { ...FIRING.alert, condition: budget } });
  const email = await server.next('mia@example.org');
  assert.ok(
    email.to.includes('mia@example.org') && !email.to.includes('noor@example.org'),
    email.to.join(' '),
  );
  assert.match(email.text, /\n\nhttps:\/\/llm\.example\.org\/usage\?account=acct_1/);
  const ofNobody = { ...FIRING.alert, condition: budget.replace('acct_1', 'acct_2') };
  await channels.of('owners')?.send({ ...FIRING, alert: ofNobody });
  assert.deepEqual(asked, ['acct_1', 'acct_2']);
  await using off = open(false);
  assert.deepEqual(off.idsFor(budget), []);
});

test('secrets are base64 of 24 to 64 bytes with or without `whsec_`, and nothing else', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 80 }), fc.boolean(), (bytes, hasPrefix) => {
      const base64 = randomBytes(bytes).toString('base64');
      const secret = `${hasPrefix ? 'whsec_' : ''}${base64}`;
      assert.equal(WEBHOOK_SECRET.test(secret), bytes >= 24 && bytes <= 64);
      if (!WEBHOOK_SECRET.test(secret)) return;
      const message = { id: 'x', atMs: 1_700_000_000_999, body: '{"ä":1}' };
      const expected = createHmac('sha256', Buffer.from(base64, 'base64'))
        .update('x.1700000000.{"ä":1}')
        .digest('base64');
      assert.equal(signedHeaders(new Secret(secret), message)['webhook-signature'], `v1,${expected}`);
    }),
  );
});

test('pauses between attempts are whole, grow from 5 s, and never exceed an hour', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 40 }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (attempts, random) => {
        const pause = pauseAfter(attempts, random);
        if (attempts >= MAX_ATTEMPTS) return assert.equal(pause, null);
        assert.ok(pause !== null && Number.isInteger(pause));
        assert.ok(pause >= 5000 && pause <= 3_600_000);
        const next = pauseAfter(attempts + 1, random);
        assert.ok(next === null || next >= pause);
      },
    ),
  );
});

test('the configuration requires a mail server for addresses, a secret for `json`, and one URL', () => {
  const issues = (alerts: object) =>
    configSchema.safeParse({ alerts }).error?.issues.map(({ path }) => path.join('.')) ?? [];
  const webhook = { name: 'a', url: 'http://10.0.0.1/x', secretEnv: 'A' };
  assert.deepEqual(issues({ webhooks: [webhook] }), []);
  assert.deepEqual(issues({ email: ['a@example.org'] }), ['alerts.email']);
  assert.deepEqual(issues({ webhooks: [{ ...webhook, secretEnv: undefined }] }), [
    'alerts.webhooks.0.secretEnv',
  ]);
  assert.deepEqual(issues({ webhooks: [{ ...webhook, format: 'slack' }] }), ['alerts.webhooks.0.secretEnv']);
  assert.deepEqual(issues({ webhooks: [{ ...webhook, urlEnv: 'B' }] }), ['alerts.webhooks.0.url']);
  assert.deepEqual(issues({ webhooks: [webhook, webhook] }), ['alerts.webhooks']);
  assert.deepEqual(issues({ disabled: ['disk'] }), ['alerts.disabled.0']);
});
