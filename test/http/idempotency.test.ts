import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { describe, test } from 'node:test';
import { RedisClient } from '@redis/client';
import OpenAI, { ConflictError, UnprocessableEntityError } from 'openai';
import { HttpReplica } from '../replicas/replicas.ts';
import { requestLog, startService, until, type TestService } from '../harness.ts';
import { Management, type Caller } from '../management.ts';
import { valkeyUrl, withoutValkey } from '../support/servers.ts';
import { assertEndsWith, assertError, exchange, requestText, Wire } from './wire.ts';

const MODEL = 'acme/hosted';
const OTHER_MODEL = 'acme/other';
const REPLAY = 'x-sluice-idempotent-replay';

/** Longer than any test, in milliseconds. */
const FOREVER = 80_000_000;

/** What keeps the client of a stream waiting, by the endpoint. */
const LANGUAGES = [
  { path: '/v1/chat/completions', fields: {}, keepAlive: ': keep-alive\n\n' },
  {
    path: '/v1/responses',
    fields: { input: 'Count.', messages: undefined },
    keepAlive: 'event: keepalive\n',
  },
  { path: '/v1/messages', fields: { max_tokens: 100 }, keepAlive: 'event: ping\n' },
];

describe('a second request with the same key and body, while the first one runs', () => {
  test('gets the stream so far, and then the rest', async () => {
    await using fixture = await Fixture.start();
    const { reader: first, generation } = await fixture.begin('a');
    assert.equal(await first.text(), 'one');
    const second = await fixture.stream('a');
    assert.equal(await second.text(), 'one');
    generation.send(' two');
    generation.finish();
    for (const reader of [first, second]) {
      assert.equal(await reader.text(), ' two');
      assert.equal(await reader.text(), null);
    }
    assert.equal(first.headers.get(REPLAY), null);
    assert.equal(second.headers.get(REPLAY), 'true');
    assert.equal(second.headers.get('x-request-id'), first.headers.get('x-request-id'));
    assert.equal(second.id, first.id);
    assert.equal(fixture.replica.started, 1);
    await fixture.assertBilledOnce(first.headers.get('x-request-id'), 2);
  });

  test('gets the JSON response', async () => {
    await using fixture = await Fixture.start();
    const first = fixture.complete('a');
    const generation = await fixture.replica.next();
    const second = fixture.complete('a');
    await fixture.untilRunning(2);
    generation.send('one');
    generation.finish();
    const [one, two] = await Promise.all([first, second]);
    assert.deepEqual(two.data, one.data);
    assert.equal(one.data.choices[0]?.message.content, 'one');
    assert.deepEqual([one.response.headers.get(REPLAY), two.response.headers.get(REPLAY)], [null, 'true']);
    assert.equal(two.request_id, one.request_id);
    assert.equal(fixture.replica.started, 1);
    await fixture.assertBilledOnce(one.request_id, 1);
  });

  test('does not count as another request, and does not wait for a slot', async () => {
    await using fixture = await Fixture.start();
    const caller = await fixture.management.caller('once');
    const { reader: first, generation } = await fixture.begin('a', caller);
    const second = await fixture.stream('a', caller);
    generation.finish();
    assert.equal(await first.text(), 'one');
    assert.equal(await second.text(), 'one');
    assert.equal(second.headers.get('x-ratelimit-remaining-requests'), '0');
    assertError(await fixture.exchange('b', { key: caller.key }), 'requests_per_minute');
  });

  test('gets the error of the first one if it fails before its first token, and the key is free again', async () => {
    await using fixture = await Fixture.start();
    for (const stream of [true, false]) {
      const first = fixture.exchange('a', { fields: { stream } });
      const generation = await fixture.replica.next();
      const second = fixture.exchange('a', { fields: { stream } });
      await fixture.untilRunning(2);
      generation.fail();
      const [one, two] = await Promise.all([first, second]);
      assertError(one, 'internal_error');
      assert.equal(two.body, one.body);
      assert.equal(two.status, one.status);
      assert.equal(two.header('x-request-id'), one.header('x-request-id'));
    }
    const third = await fixture.run('a', 'one', { stream: true });
    assert.deepEqual([third.status, third.header(REPLAY)], [200, null]);
  });

  test('ends with an error when its own API key is revoked, and the first one continues', async () => {
    await using fixture = await Fixture.start();
    const other = await fixture.management.key(fixture.caller.accountId);
    const { reader: first, generation } = await fixture.begin('a');
    using second = await fixture.wire('a', { key: other.key, fields: { stream: true } });
    assert.match((await second.chunk()) ?? '', /"content":"one"/);
    await fixture.test.service.keys.revoke(other.keyId);
    assertEndsWith(await second.restOfBody(), 'invalid_api_key');
    generation.send(' two');
    generation.finish();
    assert.equal(await first.text(), 'one');
    assert.equal(await first.text(), ' two');
    await fixture.assertBilledOnce(first.headers.get('x-request-id'), 2);
  });

  test('ends with an error that has the next number, in a language with numbered events', async () => {
    await using fixture = await Fixture.start();
    const other = await fixture.management.key(fixture.caller.accountId);
    const sent = {
      path: '/v1/responses',
      fields: { input: 'Count.', messages: undefined, max_tokens: undefined, stream: true },
    };
    using first = await fixture.open('a', sent);
    const generation = await fixture.replica.next();
    generation.send('one');
    assert.equal((await first.head()).status, 200);
    using second = await fixture.wire('a', { ...sent, key: other.key });
    const received = (await second.chunk()) ?? '';
    assert.match(received, /"delta":"one"/);
    await fixture.test.service.keys.revoke(other.keyId);
    const frames = received + (await second.restOfBody());
    const numbers = [...frames.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number));
    assert.deepEqual(numbers, [0, 1, 2, 3, 4, 5]);
    assert.match(frames, /event: error\n[^\n]*"code":"invalid_api_key"/);
    generation.finish();
    assert.match(await first.restOfBody(), /event: response.completed\n/);
  });

  for (const { path, fields, keepAlive } of LANGUAGES) {
    test(`gets the keep-alives of its language: ${path}`, async () => {
      await using fixture = await Fixture.start('{}', {}, 'stream: {holdMs: 1, keepAliveMs: 1}');
      const sent = { path, fields: { max_tokens: undefined, stream: true, ...fields } };
      using first = await fixture.wire('a', sent);
      const generation = await fixture.replica.next();
      using second = await fixture.wire('a', sent);
      const bodies = [];
      for (const reader of [first, second]) {
        let received = '';
        while (received.split(keepAlive).length < 4) received += await reader.chunk();
        bodies.push(received);
      }
      generation.send('one');
      generation.finish();
      bodies[0] += await first.restOfBody();
      bodies[1] += await second.restOfBody();
      const replay = await fixture.exchange('a', sent);
      assert.match(replay.body, /one/);
      assert.deepEqual(bodies, [replay.body, replay.body]);
      const comments = replay.body.split('\n').filter((line) => line.startsWith(':'));
      assert.equal(comments.length > 0, keepAlive.startsWith(':'));
      const numbers = [...replay.body.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) =>
        Number(number),
      );
      assert.deepEqual(
        numbers,
        numbers.map((_, index) => index),
      );
    });
  }

  test('ends with the same error when the API key of the first one is revoked', async () => {
    await using fixture = await Fixture.start();
    const { key, keyId } = await fixture.management.key(fixture.caller.accountId);
    const first = fixture.exchange('a', { key, fields: { stream: true } });
    const generation = await fixture.replica.next();
    generation.send('one');
    using second = await fixture.wire('a', { fields: { stream: true } });
    const received = await second.chunk();
    assert.match(received ?? '', /"content":"one"/);
    await fixture.test.service.keys.revoke(keyId);
    const { body } = await first;
    assert.equal(assertEndsWith(body, 'invalid_api_key'), 1);
    assert.equal(`${received}${await second.restOfBody()}`, body);
    await until(() => generation.closed);
  });

  test('delays neither the first one nor the generation if it reads nothing', async () => {
    await using fixture = await Fixture.start('maxBytes: 200000000');
    const { reader: first, generation } = await fixture.begin('a');
    using second = await fixture.wire('a', { fields: { stream: true } });
    second.socket.pause();
    const text = 'x'.repeat(1_000_000);
    // More than the buffers of a connection hold.
    for (let part = 0; part < 20; part++) generation.send(text);
    generation.finish();
    assert.equal(await first.text(), 'one');
    for (let part = 0; part < 20; part++) assert.equal(await first.text(), text);
    assert.equal(await first.text(), null);
    second.socket.resume();
    assert.equal((await second.restOfBody()).split(text).length, 21);
  });
});

test('a client that reads nothing for stallMs is disconnected, and the others get the whole response', async () => {
  await using fixture = await Fixture.start('maxBytes: 200000000', {}, 'stream: {stallMs: 3000}');
  const { reader: first, generation } = await fixture.begin('a');
  using second = await fixture.wire('a', { fields: { stream: true } });
  second.socket.pause();
  const text = 'x'.repeat(1_000_000);
  // More than the buffers of a connection hold.
  for (let part = 0; part < 20; part++) generation.send(text);
  assert.equal(await first.text(), 'one');
  for (let part = 0; part < 20; part++) assert.equal(await first.text(), text);
  await until(() => fixture.test.log().includes('"complete":false,"message":"idempotent request"'));
  generation.finish();
  assert.equal(await first.text(), null);
});

describe('a request with the same key, after the first one ended,', () => {
  test('gets the same JSON response', async () => {
    await using fixture = await Fixture.start();
    const first = await fixture.run('a', 'one');
    const again = await fixture.exchange('a');
    assert.deepEqual([again.status, again.body], [200, first.body]);
    assert.equal(again.header(REPLAY), 'true');
    assert.equal(again.header('x-request-id'), first.header('x-request-id'));
    assert.equal(fixture.replica.started, 1);
    await fixture.assertBilledOnce(first.header('x-request-id'), 1);
  });

  test('gets the same stream', async () => {
    await using fixture = await Fixture.start();
    const first = await fixture.run('a', 'hé 東京', { stream: true });
    const again = await fixture.exchange('a', { fields: { stream: true } });
    assert.match(first.body, /"content":"hé 東京"[\s\S]*\[DONE\]\n\n$/);
    assert.deepEqual([again.status, again.body], [200, first.body]);
    assert.equal(again.header('content-type'), first.header('content-type'));
    assert.equal(again.header(REPLAY), 'true');
  });

  test('gets the same stream if an error ended it after its first token', async () => {
    await using fixture = await Fixture.start();
    const first = fixture.exchange('a', { fields: { stream: true } });
    const generation = await fixture.replica.next();
    generation.send('one');
    generation.fail();
    const again = fixture.exchange('a', { fields: { stream: true } });
    assert.equal((await again).body, (await first).body);
    assertEndsWith((await first).body, 'engine_unavailable');
    assert.equal(fixture.replica.started, 1);
  });

  test('begins a new generation after keepMs', async () => {
    await using fixture = await Fixture.start('keepMs: 20');
    const first = await fixture.run('a', 'one');
    void fixture.replica.next().then((generation) => {
      generation.send('two');
      generation.finish();
    });
    await until(
      async () => (await fixture.exchange('a')).header('x-request-id') !== first.header('x-request-id'),
    );
    assert.equal(fixture.replica.started, 2);
  });

  test('is refused with 422 if its body or endpoint is different', async () => {
    await using fixture = await Fixture.start();
    await fixture.run('a', 'one');
    await assert.rejects(fixture.complete('a', { temperature: 0.5 }), (error) => {
      assert.ok(error instanceof UnprocessableEntityError);
      assert.equal(error.code, 'idempotency_key_reused');
      return true;
    });
    const path = '/v1/completions';
    assertError(await fixture.exchange('a', { path }), 'idempotency_key_reused');
    assert.equal((await fixture.run('b', 'two')).status, 200);
  });

  test('begins its own generation if it is from another account', async () => {
    await using fixture = await Fixture.start();
    const other = await fixture.management.caller();
    const first = await fixture.run('a', 'one');
    const second = await fixture.run('a', 'two', {}, other);
    assert.equal(second.header(REPLAY), null);
    assert.notEqual(second.header('x-request-id'), first.header('x-request-id'));
  });

  test('gets the response with another API key of the account if that key may use the model', async () => {
    await using fixture = await Fixture.start();
    const first = await fixture.run('a', 'one');
    const { accountId } = fixture.caller;
    const allowed = await fixture.management.key(accountId);
    const restricted = await fixture.management.key(accountId, { allowed_models: [OTHER_MODEL] });
    assert.equal((await fixture.exchange('a', { key: allowed.key })).body, first.body);
    assertError(await fixture.exchange('a', { key: restricted.key }), 'model_not_allowed', 'model');
  });
});

describe('a client that sends an Idempotency-Key and disconnects', () => {
  for (const stream of [true, false]) {
    test(`can get the rest of its ${stream ? 'stream' : 'JSON response'} with another request`, async () => {
      await using fixture = await Fixture.start(`graceMs: ${FOREVER}`);
      const fields = { stream };
      const wire = await fixture.open('a', { fields });
      const generation = await fixture.replica.next();
      if (stream) {
        generation.send('one');
        await wire.head();
      }
      wire.socket.destroy();
      await until(() => fixture.test.log().includes('waiting for a repeated request'));
      assert.equal(generation.closed, false);
      const again = fixture.exchange('a', { fields });
      await fixture.untilRunning(2);
      if (!stream) generation.send('one');
      generation.send(' two');
      generation.finish();
      const response = await again;
      assert.equal(response.header(REPLAY), 'true');
      assert.match(response.body, stream ? /"one".*" two".*\[DONE\]/s : /"content":"one two"/);
      assert.equal(fixture.replica.started, 1);
      await fixture.assertBilledOnce(response.header('x-request-id'), 2);
    });
  }

  test('pays for what was generated if it sends no other request within graceMs, and the key is free again', async () => {
    await using fixture = await Fixture.start('graceMs: 20');
    const wire = await fixture.open('a', { fields: { stream: true } });
    const generation = await fixture.replica.next();
    generation.send('one');
    const head = await wire.head();
    await wire.chunk();
    wire.socket.destroy();
    await until(() => generation.closed);
    const id = head.header('x-request-id') ?? '';
    await until(async () => (await fixture.receipt(id))?.state === 'settled');
    const { error_code, billed, completion_tokens } = (await fixture.receipt(id)) ?? {};
    assert.deepEqual(
      { error_code, billed, completion_tokens },
      { error_code: 'client_disconnected', billed: true, completion_tokens: 1 },
    );
    const next = await fixture.run('a', 'two', { stream: true });
    assert.equal(next.header(REPLAY), null);
    assert.match(next.body, /"content":"two"/);
  });

  test('does not end the generation while another client reads it', async () => {
    await using fixture = await Fixture.start('graceMs: 0');
    const wire = await fixture.open('a', { fields: { stream: true } });
    const generation = await fixture.replica.next();
    generation.send('one');
    await wire.head();
    const second = await fixture.stream('a');
    wire.socket.destroy();
    await fixture.untilRunning(2);
    generation.send(' two');
    generation.finish();
    assert.equal(await second.text(), 'one');
    assert.equal(await second.text(), ' two');
    assert.equal(await second.text(), null);
  });

  test('ends its generation at once if the service is stopping', async () => {
    await using fixture = await Fixture.start(`graceMs: ${FOREVER}`);
    const wire = await fixture.open('a', { fields: { stream: true } });
    const generation = await fixture.replica.next();
    generation.send('one');
    await wire.head();
    const drained = fixture.test.service.drain();
    wire.socket.destroy();
    await drained;
    await until(() => generation.closed);
    const [line] = requestLog(fixture.test);
    assert.equal(line?.code, 'client_disconnected');
  });
});

describe('the memory for responses is limited to maxBytes:', () => {
  const text = 'x'.repeat(40_000);

  test('the response that ended first is discarded first', async () => {
    await using fixture = await Fixture.start('maxBytes: 400000');
    const [one, two, three] = [
      await fixture.run('1', text),
      await fixture.run('2', text),
      await fixture.run('3', text),
    ];
    assert.equal((await fixture.exchange('2')).body, two.body);
    assert.equal((await fixture.exchange('3')).body, three.body);
    const again = await fixture.run('1', text);
    assert.notEqual(again.header('x-request-id'), one.header('x-request-id'));
  });

  test('an account that exceeds its share discards only its own responses', async () => {
    await using fixture = await Fixture.start('maxBytes: 400000');
    const other = await fixture.management.caller();
    const kept = await fixture.run('a', 'one', {}, other);
    for (let key = 0; key < 12; key++) await fixture.run(String(key), text);
    assert.equal((await fixture.exchange('a', { key: other.key })).body, kept.body);
    assert.equal((await fixture.exchange('11')).header(REPLAY), 'true');
  });

  test('a stream that does not fit continues for its caller, cannot be joined, and is not kept', async () => {
    await using fixture = await Fixture.start('maxBytes: 65536');
    using wire = await fixture.open('a', { fields: { stream: true } });
    const generation = await fixture.replica.next();
    // The replica is read while the caller reads nothing, until the buffers of both connections are full.
    for (let part = 0; part < 400; part++) generation.send(text);
    await wire.head();
    let received = '';
    while (received.length < 10 * text.length) received += (await wire.chunk()) ?? '';
    const refused = await fixture.exchange('a', { fields: { stream: true } });
    assertError(refused, 'idempotency_in_flight');
    assert.equal(refused.header('retry-after-ms'), '1000');
    generation.finish();
    received += await wire.restOfBody();
    assert.equal(received.split(text).length, 401);
    assert.ok(received.endsWith('data: [DONE]\n\n'));
    const next = await fixture.run('a', 'two', { stream: true });
    assert.equal(next.header(REPLAY), null);
  });

  test('a JSON response that does not fit is sent to all clients that wait for it, and is not kept', async () => {
    await using fixture = await Fixture.start('maxBytes: 65536');
    const long = 'x'.repeat(100_000);
    const first = fixture.exchange('a');
    const generation = await fixture.replica.next();
    const second = fixture.exchange('a');
    await fixture.untilRunning(2);
    generation.send(long);
    generation.finish();
    assert.ok((await first).body.includes(long));
    assert.equal((await second).body, (await first).body);
    assert.equal((await fixture.run('a', 'two')).header(REPLAY), null);
  });
});

describe('the Idempotency-Key header', () => {
  test('is refused unless it has 1 to 255 printable ASCII characters', async () => {
    await using fixture = await Fixture.start();
    for (const key of ['', '""', 'a'.repeat(256), `"${'a'.repeat(256)}"`, 'schl\u00fcssel', 'tab\there']) {
      const response = await fixture.exchange(key);
      assertError(response, 'invalid_value');
      assert.match(response.body, /`Idempotency-Key`/, key);
    }
    const repeated = requestText(
      'POST /v1/chat/completions',
      {
        Authorization: `Bearer ${fixture.caller.key}`,
        'Idempotency-Key': 'a\r\nIdempotency-Key: a',
      },
      fixture.body(),
    );
    assertError(await exchange(fixture.test.url, repeated), 'invalid_value');
    assert.equal(fixture.replica.started, 0);
    for (const key of ['a', ' !"#~', 'a'.repeat(255)])
      assert.equal((await fixture.run(key, 'one')).status, 200);
  });

  test('identifies the same key with and without quotes', async () => {
    await using fixture = await Fixture.start();
    const first = await fixture.run('"a b"', 'one');
    assert.equal((await fixture.exchange('a b')).body, first.body);
  });

  test('can be sent from a page of another origin, which can read whether the response is a replay', async () => {
    await using fixture = await Fixture.start();
    await fixture.run('a', 'one');
    const origin = { origin: 'https://app.example' };
    const preflight = await fetch(`${fixture.test.url}/v1/chat/completions`, {
      method: 'OPTIONS',
      headers: { ...origin, 'access-control-request-headers': 'idempotency-key' },
    });
    assert.equal(preflight.headers.get('access-control-allow-headers'), 'idempotency-key');
    const response = await fixture.exchange('a', { headers: origin });
    assert.ok(response.header('access-control-expose-headers')?.split(', ').includes(REPLAY));
  });
});

describe('two instances with the same Valkey', { skip: withoutValkey }, () => {
  test('run one generation per key, and the other instance responds 409', async () => {
    await using pair = await startPair();
    const { one, two } = pair;
    const { reader: first, generation } = await one.begin('a');
    assert.equal(await first.text(), 'one');
    const joined = await one.stream('a');
    assert.equal(await joined.text(), 'one');
    await assert.rejects(two.stream('a'), (error) => {
      assert.ok(error instanceof ConflictError);
      assert.equal(error.code, 'idempotency_in_flight');
      assert.equal(error.headers.get('retry-after-ms'), '1000');
      return true;
    });
    assertError(await two.exchange('a'), 'idempotency_key_reused');
    generation.finish();
    assert.equal(await first.text(), null);
    const kept = await two.exchange('a', { fields: { stream: true } });
    assertError(kept, 'idempotency_in_flight');
    assert.match(kept.body, /has ended on another instance/);
    assert.equal(kept.header('retry-after-ms'), null);
    assert.equal((await one.exchange('a', { fields: { stream: true } })).header(REPLAY), 'true');
    assert.equal(two.replica.started, 0);
    // The response is gone with the instance.
    await one[Symbol.asyncDispose]();
    assert.equal((await two.run('a', 'two', { stream: true })).status, 200);
  });

  test('release a key after an error, or when its response is discarded', async () => {
    await using pair = await startPair('keepMs: 20');
    const { one, two } = pair;
    const failed = one.exchange('a');
    (await one.replica.next()).fail();
    assertError(await failed, 'internal_error');
    assert.equal((await two.run('a', 'one')).status, 200);
    void one.replica.next().then((generation) => {
      generation.send('two');
      generation.finish();
    });
    await until(async () => (await one.exchange('a')).status === 200);
  });

  test('replace the claim of an instance that has crashed', async () => {
    await using pair = await startPair();
    const { one, two } = pair;
    await one.run('a', 'one');
    assertError(await two.exchange('a'), 'idempotency_in_flight');
    const client = RedisClient.factory()({ url: pair.url });
    await client.connect();
    const [key = ''] = await client.keys('sluice:idempotency:*');
    const claim = (await client.get(key)) ?? '';
    await client.set(key, claim.replace(/^\S+/, 'gone'));
    client.destroy();
    assert.equal((await two.run('a', 'two')).status, 200);
    assert.equal((await one.exchange('a')).header(REPLAY), 'true');
  });
});

test('requests with a key are joined within an instance while Valkey is unavailable, which is logged once', async () => {
  await using fixture = await Fixture.start('{}', { SLUICE_VALKEY_URL: 'redis://127.0.0.1:9' });
  const first = await fixture.run('a', 'one');
  assert.equal((await fixture.exchange('a')).body, first.body);
  const warnings = fixture.test.log().match(/the store of idempotency keys does not respond/g);
  assert.equal(warnings?.length, 1);
});

/** Starts two instances that share only Valkey. Each has its own database, whose default account has the same ID. */
async function startPair(settings?: string) {
  const url = await valkeyUrl();
  await using owned = new AsyncDisposableStack();
  const env = { SLUICE_VALKEY_URL: url };
  const one = owned.use(await Fixture.start(settings, env));
  const two = owned.use(await Fixture.start(settings, env));
  const kept = owned.move();
  return { one, two, url, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

interface Sent {
  fields?: object;
  key?: string;
  path?: string;
  headers?: Record<string, string>;
}

/** A service with a replica whose generations the test controls. */
class Fixture implements AsyncDisposable {
  readonly test: TestService;
  readonly replica: ControlledReplica;
  readonly management: Management;
  /** The caller of requests for which a test gives no API key. */
  readonly caller: Caller;
  readonly #owned: AsyncDisposableStack;

  private constructor(
    test: TestService,
    replica: ControlledReplica,
    management: Management,
    caller: Caller,
    owned: AsyncDisposableStack,
  ) {
    this.test = test;
    this.replica = replica;
    this.management = management;
    this.caller = caller;
    this.#owned = owned;
  }

  /** `settings` are the fields of `idempotency` in YAML, and `rest` is the rest of the configuration. */
  static async start(settings = '{}', env: NodeJS.ProcessEnv = {}, rest = ''): Promise<Fixture> {
    await using owned = new AsyncDisposableStack();
    const replica = owned.use(await ControlledReplica.listen());
    const model = (id: string) => ({
      id,
      contextTokens: 1_000_000_000,
      pricing: { prompt: '1', completion: '1' },
      replicas: [{ url: replica.url, dialect: 'openai' }],
    });
    const yaml = `models: ${JSON.stringify([model(MODEL), model(OTHER_MODEL)])}
plans: {open: {}, once: {requestsPerMinute: 1}}
defaultPlan: open
idempotency: ${settings.startsWith('{') ? settings : `{${settings}}`}
${rest}
`;
    const service = owned.use(await startService(yaml, env));
    const management = await Management.of(service);
    const caller = await management.key('default');
    return new Fixture(service, replica, management, caller, owned.move());
  }

  body(fields: object = {}): object {
    return { model: MODEL, messages: [{ role: 'user', content: 'Count.' }], max_tokens: 100_000, ...fields };
  }

  async open(idempotencyKey: string, sent: Sent = {}): Promise<Wire> {
    const { fields, key = this.caller.key, path = '/v1/chat/completions', headers = {} } = sent;
    const wire = await Wire.open(this.test.url);
    const all = { Authorization: `Bearer ${key}`, 'Idempotency-Key': idempotencyKey, ...headers };
    return wire.send(Buffer.from(requestText(`POST ${path}`, all, this.body(fields)), 'latin1'));
  }

  /** Sends a request and reads the status. */
  async wire(idempotencyKey: string, sent: Sent = {}): Promise<Wire> {
    const wire = await this.open(idempotencyKey, sent);
    assert.equal((await wire.head()).status, 200);
    return wire;
  }

  async exchange(idempotencyKey: string, sent: Sent = {}) {
    using wire = await this.open(idempotencyKey, sent);
    return await wire.response();
  }

  /** Runs a generation with this text, in one token. */
  async run(idempotencyKey: string, text: string, fields: object = {}, caller = this.caller) {
    const response = this.exchange(idempotencyKey, { fields, key: caller.key });
    const generation = await this.replica.next();
    generation.send(text);
    generation.finish();
    return await response;
  }

  /** Sends a non-streaming request with the official client. */
  complete(idempotencyKey: string, fields: object = {}) {
    return this.#client(this.caller)
      .chat.completions.create(this.#chat(fields), { headers: { 'Idempotency-Key': idempotencyKey } })
      .withResponse();
  }

  /** Sends a streaming request with the official client, and resolves when the status has arrived. */
  async stream(idempotencyKey: string, caller = this.caller): Promise<StreamReader> {
    const options = { headers: { 'Idempotency-Key': idempotencyKey } };
    const request = { ...this.#chat({}), stream: true as const };
    const { data, response } = await this.#client(caller)
      .chat.completions.create(request, options)
      .withResponse();
    return new StreamReader(data[Symbol.asyncIterator](), response.headers);
  }

  /** Begins a stream, with the token `one`. */
  async begin(idempotencyKey: string, caller = this.caller) {
    const starting = this.stream(idempotencyKey, caller);
    const generation = await this.replica.next();
    generation.send('one');
    return { reader: await starting, generation };
  }

  /** Waits until this number of requests is running. */
  async untilRunning(count: number): Promise<void> {
    await until(async () => {
      const headers = { authorization: `Bearer ${this.management.admin}` };
      const response = await fetch(`${this.test.url}/readyz`, { headers });
      return ((await response.json()) as { running: number }).running === count;
    });
  }

  async receipt(id: string) {
    return (await this.management.receipt(id))?.request ?? null;
  }

  /** Asserts that the ledger has one row, which is billed. */
  async assertBilledOnce(id: string | null, completionTokens: number): Promise<void> {
    await until(async () => (await this.receipt(id ?? ''))?.state === 'settled');
    const row = await this.receipt(id ?? '');
    assert.deepEqual([row?.error_code, row?.billed, row?.completion_tokens], [null, true, completionTokens]);
    const { data } = (await this.management.call('GET', '/api/requests')) as { data: unknown[] };
    assert.equal(data.length, 1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }

  #client({ key }: Caller): OpenAI {
    return new OpenAI({ baseURL: `${this.test.url}/v1`, apiKey: key, maxRetries: 0 });
  }

  #chat(fields: object) {
    return this.body(fields) as OpenAI.ChatCompletionCreateParamsNonStreaming;
  }
}

/** Reads the texts of a stream. */
class StreamReader {
  readonly headers: Headers;
  id = '';
  readonly #chunks: AsyncIterator<OpenAI.ChatCompletionChunk>;

  constructor(chunks: AsyncIterator<OpenAI.ChatCompletionChunk>, headers: Headers) {
    this.#chunks = chunks;
    this.headers = headers;
  }

  /** Resolves with the next text that is not empty; null at the end. */
  async text(): Promise<string | null> {
    for (;;) {
      const { done, value } = await this.#chunks.next();
      if (done) return null;
      this.id = value.id;
      const content = value.choices[0]?.delta.content;
      if (content) return content;
    }
  }
}

/** An OpenAI-compatible server that generates what the test sends. */
class ControlledReplica implements AsyncDisposable {
  readonly url: string;
  started = 0;
  readonly #server: HttpReplica;
  readonly #generations: Generation[];
  #wake: () => void = () => {};

  private constructor(server: HttpReplica, generations: Generation[]) {
    this.#server = server;
    this.#generations = generations;
    this.url = server.url;
  }

  static async listen(): Promise<ControlledReplica> {
    const generations: Generation[] = [];
    const server = await HttpReplica.listen((response, request, body) => {
      if (request.method === 'GET') {
        response.writeHead(404).end();
        return;
      }
      replica.started++;
      generations.push(new Generation(response, body['stream'] === true));
      replica.#wake();
    });
    const replica = new ControlledReplica(server, generations);
    return replica;
  }

  /** Waits for the next generation. */
  async next(): Promise<Generation> {
    for (;;) {
      const generation = this.#generations.shift();
      if (generation !== undefined) return generation;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
  }
}

/** One request to a `ControlledReplica`. */
class Generation {
  readonly #response: ServerResponse;
  readonly #isStream: boolean;
  #text = '';
  #tokens = 0;

  constructor(response: ServerResponse, isStream: boolean) {
    this.#response = response;
    this.#isStream = isStream;
  }

  /** Whether the service has closed the connection. */
  get closed(): boolean {
    return this.#response.destroyed;
  }

  /** Generates one token. */
  send(text: string): void {
    this.#text += text;
    this.#tokens++;
    if (this.#isStream)
      this.#write({ choices: [{ index: 0, delta: { content: text }, finish_reason: null }] });
  }

  finish(): void {
    const usage = { prompt_tokens: 5, completion_tokens: this.#tokens, total_tokens: 5 + this.#tokens };
    if (!this.#isStream) {
      const message = { role: 'assistant', content: this.#text };
      this.#response.end(JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage }));
      return;
    }
    this.#write({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
    this.#write({ choices: [], usage });
    this.#response.end('data: [DONE]\n\n');
  }

  /** Fails with a 500, or in the middle of a stream. */
  fail(): void {
    if (this.#response.headersSent) this.#response.end('data: {\n\n');
    else this.#response.writeHead(500).end('{}');
  }

  #write(chunk: object): void {
    this.#response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  }
}
