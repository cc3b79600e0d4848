import assert from 'node:assert/strict';
import { after, mock, test } from 'node:test';
import { ApiError } from '../../console/src/api/client.ts';
import { generate, type GenerateCall, type GenerateEvent } from '../../console/src/api/generate.ts';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { untilIdle, chat, startService } from '../harness.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());

// In a browser, URLs without a host refer to the service of the page.
const originalFetch = globalThis.fetch;
mock.method(globalThis, 'fetch', (path: string, init: RequestInit) =>
  originalFetch(service.url + path, init),
);

const ask = (directive: Directive, more: Partial<GenerateCall> = {}): GenerateCall => ({
  body: { ...chat(scripted(directive)) },
  key: service.key,
  ...more,
});

async function eventsOf(call: GenerateCall): Promise<GenerateEvent[]> {
  return await Array.fromAsync(generate(call));
}

/** Returns the events without values that vary. */
function summary(events: readonly GenerateEvent[]): unknown[] {
  return events.map((event) => {
    if (event.type === 'text') return [event.choice, event.text];
    if (event.type === 'finish') return [event.choice, event.reason];
    return event.type === 'fault' ? event.error.code : event.type;
  });
}

const textOf = (events: readonly GenerateEvent[]): string =>
  events.map((event) => (event.type === 'text' ? event.text : '')).join('');

test('a streamed chat completion has events with request id, timing and usage', async () => {
  const events = await eventsOf(ask({ text: 'Zwölf Ärzte 🥼', cachedTokens: 2 }));
  assert.deepEqual(summary(events).slice(0, 2), ['accepted', 'first_token']);
  assert.deepEqual(summary(events).slice(-3), [[0, 'stop'], 'usage', 'end']);
  assert.equal(textOf(events), 'Zwölf Ärzte 🥼');
  const usage = events.find((event) => event.type === 'usage')?.usage;
  assert.ok(usage && usage.promptTokens > 2 && usage.completionTokens > 0);
  assert.equal(usage.cachedTokens, 2);
  const [accepted, first] = events;
  assert.ok(accepted?.type === 'accepted' && /^[\da-f-]{36}$/.test(accepted.requestId ?? ''));
  const end = events.at(-1);
  assert.ok(first?.type === 'first_token' && end?.type === 'end');
  assert.ok(first.ttftMs > 0 && first.ttftMs <= end.totalMs);
});

test('a response that is not streamed has the same events', async () => {
  const events = await eventsOf(ask({ text: 'at once' }, { stream: false }));
  assert.deepEqual(summary(events), ['accepted', [0, 'at once'], [0, 'stop'], 'usage', 'end']);
});

test('reasoning and calls have the same events whether streamed or not', async () => {
  const calls = [
    { name: 'get_weather', arguments: { city: 'Zürich' } },
    { name: 'get_time', arguments: {} },
  ];
  const tools = calls.map(({ name }) => ({ type: 'function', function: { name } }));
  const directive = scripted({ reasoning: 'Hm, a city.', calls });
  for (const stream of [true, false]) {
    const events = await eventsOf(ask({}, { body: { ...chat(directive), tools }, stream }));
    const deltas = events.filter((event) => event.type === 'tool_call');
    for (const [index, { name, arguments: object }] of calls.entries()) {
      const own = deltas.filter(({ call }) => call === index);
      assert.deepEqual(
        own.flatMap((delta) => delta.name ?? []),
        [name],
      );
      assert.match(own[0]?.id ?? '', /^call_/);
      assert.deepEqual(JSON.parse(own.map((delta) => delta.arguments).join('')), object);
    }
    const reasoning = events.map((event) => (event.type === 'reasoning' ? event.text : '')).join('');
    assert.equal(reasoning, 'Hm, a city.');
    assert.equal(events.find((event) => event.type === 'finish')?.reason, 'tool_calls');
    const { completionTokens = 0, reasoningTokens = 0 } =
      events.find((event) => event.type === 'usage')?.usage ?? {};
    assert.ok(reasoningTokens > 0 && reasoningTokens < completionTokens);
  }
});

test('the first token of a response can be a call', async () => {
  const tools = [{ type: 'function', function: { name: 'get_time' } }];
  const directive = scripted({ calls: [{ name: 'get_time', arguments: {} }] });
  const events = await eventsOf(ask({}, { body: { ...chat(directive), tools } }));
  assert.equal(events[1]?.type, 'first_token');
});

test('several choices have separate events', async () => {
  const call = ask({ text: 'a b' });
  const events = await eventsOf({ ...call, body: { ...call.body, n: 2 } });
  for (const choice of [0, 1]) {
    const mine = events.filter((event) => event.type === 'text' && event.choice === choice);
    assert.equal(textOf(mine), 'a b');
  }
});

test('log probabilities come with their alternatives', async () => {
  const body = { ...chat(scripted({ tokens: 3 })), logprobs: true, top_logprobs: 2 };
  const events = await eventsOf(ask({ tokens: 3 }, { body }));
  const tokens = events.flatMap((event) => (event.type === 'text' ? event.logprobs : []));
  assert.equal(tokens.length, 3);
  for (const { token, logprob, top } of tokens) {
    assert.ok(token !== '' && logprob <= 0);
    assert.equal(top.length, 2);
  }
});

test('a refused request throws before any event, with code, field and request id', async () => {
  const call = ask({});
  await assert.rejects(eventsOf({ ...call, body: { ...call.body, temperature: 9 } }), (error) => {
    assert.ok(error instanceof ApiError);
    assert.deepEqual([error.status, error.code, error.param], [400, 'invalid_value', 'temperature']);
    assert.ok(error.requestId);
    return true;
  });
});

test('an error during generation comes after the text so far and its usage', async () => {
  const events = await eventsOf(ask({ tokens: 9, errorAfter: 3 }));
  assert.notEqual(textOf(events), '');
  assert.deepEqual(summary(events).slice(-3), ['usage', 'internal_error', 'end']);
});

test('an unreachable service throws `unreachable`', async () => {
  const reject = mock.method(globalThis, 'fetch', () => Promise.reject(new TypeError('fetch failed')));
  try {
    await assert.rejects(eventsOf(ask({})), { code: 'unreachable', status: 0 });
  } finally {
    reject.mock.restore();
  }
});

test('reasoning comes before the text, and its first piece is the first token', async () => {
  const chunk = (delta: object, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const stream = `${chunk({ reasoning_content: 'Hm.' })}${chunk({ content: 'Yes' })}${chunk({}, 'stop')}data: [DONE]\n\n`;
  const message = { content: 'Yes', reasoning_content: 'Hm.' };
  const whole = JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }] });
  for (const body of [stream, whole]) {
    const played = mock.method(globalThis, 'fetch', () => Promise.resolve(new Response(body)));
    try {
      const events = await eventsOf(ask({}, { stream: body === stream }));
      const pieces = events.flatMap((event) =>
        event.type === 'reasoning' || event.type === 'text' ? [[event.type, event.text]] : [],
      );
      assert.deepEqual(pieces, [
        ['reasoning', 'Hm.'],
        ['text', 'Yes'],
      ]);
      if (body === stream) assert.equal(events[1]?.type, 'first_token');
    } finally {
      played.mock.restore();
    }
  }
});

test('a stream is read the same wherever it is split, with any line ending', async () => {
  const chunk = (content: string) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })}`;
  const lines = [': keep-alive', '', chunk('Zwölf '), '', 'event: message', chunk('Ärzte 🥼'), 'id: 7', ''];
  for (const ending of ['\n', '\r\n', '\r']) {
    const bytes = Buffer.from([...lines, 'data: [DONE]', '', ''].join(ending));
    for (let cut = 1; cut < bytes.length; cut++) {
      const body = ReadableStream.from([bytes.subarray(0, cut), bytes.subarray(cut)]);
      const played = mock.method(globalThis, 'fetch', () => Promise.resolve(new Response(body)));
      try {
        const events = await eventsOf(ask({}));
        assert.equal(textOf(events), 'Zwölf Ärzte 🥼', `cut at ${cut}`);
        assert.equal(events.at(-1)?.type, 'end');
        assert.ok(
          events.every(({ type }) => type !== 'fault'),
          `cut at ${cut}`,
        );
      } finally {
        played.mock.restore();
      }
    }
  }
});

test('an incomplete stream ends with an error and keeps the text so far', async () => {
  const half = 'data: {"choices":[{"index":0,"delta":{"content":"ha"},"finish_reason":null}]}\n\ndata: {"cho';
  const cut = mock.method(globalThis, 'fetch', () => Promise.resolve(new Response(half)));
  try {
    assert.deepEqual(summary(await eventsOf(ask({}))), [
      'accepted',
      'first_token',
      [0, 'ha'],
      'unreachable',
      'end',
    ]);
  } finally {
    cut.mock.restore();
  }
});

test('an abort throws its reason, and the service stops generating', async () => {
  const stop = new AbortController();
  const call = ask({ tokens: 1_000_000, tokenMs: 5 }, { signal: stop.signal });
  await assert.rejects(
    async () => {
      for await (const event of generate(call)) if (event.type === 'text') stop.abort(new Error('enough'));
    },
    { message: 'enough' },
  );
  await untilIdle(service);
});

test('a consumer that stops early closes the connection', async () => {
  for await (const event of generate(ask({ tokens: 1_000_000, tokenMs: 5 }))) {
    if (event.type === 'text') break;
  }
  await untilIdle(service);
});
