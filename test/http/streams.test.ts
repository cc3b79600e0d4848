import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import {
  untilIdle,
  untilWaiting,
  chat,
  engineHealth,
  MODEL,
  post,
  requestLog,
  scriptedYaml,
  startService,
  until,
} from '../harness.ts';
import { exchange, requestText, Wire } from './wire.ts';

/** Longer than any test. */
const FOREVER = 1_000_000;
const KEEP_ALIVE = ': keep-alive\n\n';

const ENGINE = { slots: 1, contextTokens: 2_000_000 };
const service = await startService(scriptedYaml(ENGINE, 'stream: {holdMs: 20, keepAliveMs: 20}\n'));
after(() => service[Symbol.asyncDispose]());

const key = { Authorization: `Bearer ${service.key}` };
const request = (directive: Directive, fields: object = {}) =>
  requestText('POST /v1/chat/completions', key, chat(scripted(directive), fields));
const streamed = (directive: Directive) => request(directive, { stream: true });

/** Opens a stream that occupies the only slot until it is closed. */
async function holdSlot(directive: Directive = { tokenMs: FOREVER }): Promise<Wire> {
  const wire = await Wire.open(service.url);
  wire.send(streamed(directive));
  await until(async () => (await engineHealth(service)).slotsInUse === 1);
  return wire;
}

async function chunksThrough(wire: Wire, text: string): Promise<string> {
  let all = '';
  while (!all.includes(text)) {
    const chunk = await wire.chunk();
    assert.ok(chunk !== null, `the stream ended before ${text}:\n${all}`);
    all += chunk;
  }
  return all;
}

async function assertServes(on = service): Promise<void> {
  const response = await post(on, '/v1/chat/completions', chat(scripted({ text: 'fine' })));
  assert.equal(response.status, 200);
  assert.match(await response.text(), /"content":"fine"/);
}

test('a stream that waits in the queue longer than holdMs gets a 200 and comments, then its frames', async () => {
  using first = await holdSlot();
  using second = await Wire.open(service.url);
  const head = await second.send(streamed({ text: 'late' })).head();
  assert.equal(head.status, 200);
  assert.equal(head.header('content-type'), 'text/event-stream; charset=utf-8');
  assert.equal(await second.chunk(), KEEP_ALIVE);
  assert.equal(await second.chunk(), KEEP_ALIVE);
  first.socket.destroy();
  const rest = await chunksThrough(second, '[DONE]');
  assert.match(rest, /"content":"late"/);
  assert.equal(await second.chunk(), null);
});

test('comments are sent during prefill and between tokens', async () => {
  for (const directive of [{ prefillMs: FOREVER }, { tokenMs: FOREVER }]) {
    using wire = await Wire.open(service.url);
    assert.equal((await wire.send(streamed(directive)).head()).status, 200);
    await chunksThrough(wire, 'prefillMs' in directive ? '"role":"assistant"' : '"delta":{"content":');
    assert.equal(await wire.chunk(), KEEP_ALIVE);
    assert.equal(await wire.chunk(), KEEP_ALIVE);
    wire.socket.destroy();
    await untilIdle(service);
  }
});

test('an error after holdMs is sent in a frame with the usage, and the stream ends', async () => {
  using first = await holdSlot();
  using second = await Wire.open(service.url);
  assert.equal((await second.send(streamed({ errorAfter: 0, tokens: 3 })).head()).status, 200);
  assert.equal(await second.chunk(), KEEP_ALIVE);
  first.socket.destroy();
  const rest = await chunksThrough(second, '[DONE]');
  const frame = /data: (\{"error".*)\n\ndata: \[DONE\]\n\n$/.exec(rest)?.[1] ?? '';
  const { error, usage } = JSON.parse(frame) as {
    error: { code: string };
    usage: { completion_tokens: number };
  };
  assert.equal(error.code, 'internal_error');
  assert.equal(usage.completion_tokens, 0);
  assert.equal(await second.chunk(), null);
});

/** Stages in which a client can disconnect. */
const stages: Record<string, Directive> = {
  'before the prefill': { startMs: FOREVER },
  'in prefill': { prefillMs: FOREVER },
  'in decode': { tokens: 1000, tokenMs: 5 },
};

const disconnects: Record<string, (wire: Wire) => void> = {
  'closes the connection': (wire) => wire.socket.destroy(),
  'resets the connection': (wire) => wire.socket.resetAndDestroy(),
};

for (const [stage, directive] of Object.entries(stages)) {
  for (const [how, disconnect] of Object.entries(disconnects)) {
    for (const stream of [true, false]) {
      test(`a slot is freed if its client ${how} ${stage}, stream ${stream}`, async () => {
        const before = requestLog(service).length;
        using wire = await Wire.open(service.url);
        wire.send(request(directive, { stream }));
        await until(async () => (await engineHealth(service)).slotsInUse === 1);
        disconnect(wire);
        await wire.rest();
        await untilIdle(service);
        await assertServes();
        // The line is written when the row is settled, which can be after the next response.
        const ended = () => requestLog(service).slice(before);
        await until(() => ended().length === 2);
        assert.deepEqual(new Set(ended().map(({ code }) => code)), new Set(['client_disconnected', null]));
      });
    }
  }
}

test('a queued client that disconnects leaves the queue, and the running request continues', async () => {
  using first = await holdSlot({ tokenMs: 1, tokens: 100_000 });
  for (const stream of [true, false]) {
    using second = await Wire.open(service.url);
    second.send(request({ text: 'never generated' }, { stream }));
    await untilWaiting(service, 1);
    second.socket.destroy();
    await untilWaiting(service, 0);
  }
  await first.head();
  await chunksThrough(first, '"delta":{"content":');
});

test('a client that disconnects ends all requests of its pipeline', async () => {
  using wire = await Wire.open(service.url);
  wire.send(streamed({ tokenMs: FOREVER }) + streamed({ tokenMs: FOREVER }));
  await untilWaiting(service, 1);
  wire.socket.destroy();
  await untilIdle(service);
  await assertServes();
});

test('a client that reads nothing is disconnected after stallMs, before much is generated', async () => {
  await using strict = await startService(scriptedYaml(ENGINE, 'stream: {stallMs: 1000}\n'));
  using wire = await Wire.open(strict.url);
  wire.socket.pause();
  const own = { Authorization: `Bearer ${strict.key}` };
  wire.send(
    requestText('POST /v1/chat/completions', own, chat(scripted({ tokens: 1_000_000 }), { stream: true })),
  );
  await until(() => requestLog(strict).length > 0);
  const line = requestLog(strict)[0];
  assert.equal(line?.['code'], 'client_disconnected');
  assert.equal(line['cause'], 'the client stopped reading the response');
  // A chunk has about 200 bytes; the buffers of the connection hold far fewer tokens than requested.
  assert.ok(Number(line['completionTokens']) < 250_000, String(line['completionTokens']));
  await untilIdle(strict);
  await assertServes(strict);
  wire.socket.resume();
  assert.doesNotMatch(await wire.rest(), /\[DONE\]/);
});

test('a client that reads nothing of a non-streaming response is disconnected after stallMs', async () => {
  await using strict = await startService(scriptedYaml(ENGINE, 'stream: {stallMs: 1000}\n'));
  const prompt = 'a'.repeat(1_000_000);
  using wire = await Wire.open(strict.url);
  wire.socket.pause();
  const echo = { model: MODEL, prompt, echo: true, max_tokens: 1, n: 8 };
  wire.send(requestText('POST /v1/completions', { Authorization: `Bearer ${strict.key}` }, echo));
  await until(() => requestLog(strict).length > 0);
  assert.equal(requestLog(strict)[0]?.['status'], 200);
  // A request runs until the last byte of its response is sent, or its connection is closed.
  const { key: secret } = await strict.service.keys.create({ name: 'admin', kind: 'admin' });
  const readyz = requestText('GET /readyz', { Authorization: `Bearer ${secret.reveal()}` });
  await until(async () => (await exchange(strict.url, readyz)).body.includes('"running":0'));
  wire.socket.resume();
  assert.ok((await wire.rest()).length < 8 * prompt.length);
});

test('a client that reads slowly gets the whole stream', async () => {
  using wire = await Wire.open(service.url);
  let pauses = 0;
  wire.socket.on('data', () => {
    pauses++;
    wire.socket.pause();
    setImmediate(() => wire.socket.resume());
  });
  wire.send(streamed({ tokens: 40_000 }));
  const { body } = await wire.response();
  assert.ok(pauses > 50, String(pauses));
  assert.equal(body.match(/"delta":\{"content":/g)?.length, 40_000);
  const frames = body.replaceAll(KEEP_ALIVE, '');
  assert.match(frames, /"completion_tokens":40000,.*\n\ndata: \[DONE\]\n\n$/);
});

test('a long stream at full speed is complete and in order', async () => {
  const response = await post(service, '/v1/completions', {
    model: 'test/scripted',
    prompt: scripted({ tokens: 10_000 }),
    stream: true,
  });
  const frames = (await response.text()).split('\n\n').filter((frame) => !KEEP_ALIVE.startsWith(frame));
  const whole = await post(service, '/v1/completions', {
    model: 'test/scripted',
    prompt: scripted({ tokens: 10_000 }),
  });
  const { choices } = (await whole.json()) as { choices: { text: string }[] };
  assert.equal(frames.at(-1), 'data: [DONE]');
  const texts = frames.slice(0, -1).map((frame) => {
    const chunk = JSON.parse(frame.slice('data: '.length)) as { choices: { text: string }[] };
    return chunk.choices[0]?.text ?? '';
  });
  assert.equal(texts.length, 10_001);
  assert.equal(texts.join(''), choices[0]?.text);
});

test('all resources are released whenever clients disconnect', async () => {
  const clients = Array.from({ length: 30 }, async (_, index) => {
    using wire = await Wire.open(service.url);
    wire.send(request({ tokens: 20, tokenMs: index % 3 }, { stream: index % 4 !== 0 }));
    // Some disconnect at once, some in the queue, some after a few chunks.
    if (index % 5 === 0) return;
    if (index % 4 === 0) return void (await wire.response());
    await wire.head();
    for (let chunks = index % 7; chunks > 0; chunks--) if ((await wire.chunk()) === null) return;
  });
  await Promise.all(clients);
  await untilIdle(service);
  await assertServes();
  assert.doesNotMatch(service.log(), /unexpected error/);
});
