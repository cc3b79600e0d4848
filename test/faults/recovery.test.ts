import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { startService, until } from '../harness.ts';
import { Management } from '../management.ts';
import { assertError, requestText, Wire } from '../http/wire.ts';

const MODELS = ['test/killed', 'test/crashing'];
const yaml = `models:\n${MODELS.map((id) => `  - id: ${id}\n    engine: {file: 'scripted:{"ownProcess": true}'}\n`).join('')}`;
const service = await startService(yaml);
after(() => service[Symbol.asyncDispose]());
await until(() => service.service.embeddedReplicas.every((model) => model.state().state === 'ready'));
const management = await Management.of(service);

async function send(model: string, directive: Directive, stream = true): Promise<Wire> {
  const body = { model, stream, messages: [{ role: 'user', content: scripted(directive) }] };
  const wire = await Wire.open(service.url);
  return wire.send(
    requestText('POST /v1/chat/completions', { Authorization: `Bearer ${service.key}` }, body),
  );
}

interface Answer {
  id: string;
  text: string;
  usage: unknown;
}

/** Reads a stream to its end. Calls `onText` at the first text. */
async function readStream(wire: Wire, onText: () => void = () => {}): Promise<Answer> {
  const head = await wire.head();
  let body = '';
  for (let chunk = await wire.chunk(); chunk !== null; chunk = await wire.chunk()) {
    if (!body.includes('"delta":{"content":" ') && chunk.includes('"delta":{"content":" ')) onText();
    body += chunk;
  }
  assert.ok(body.endsWith('data: [DONE]\n\n'));
  assert.ok(!body.includes('"error"'), body.slice(-1000));
  const frames = body
    .split('\n\n')
    .filter((frame) => frame.startsWith('data: {'))
    .map(
      (frame) =>
        JSON.parse(frame.slice(6)) as {
          id: string;
          choices: { delta: { content?: string | null } }[];
          usage?: object | null;
        },
    );
  assert.equal(new Set(frames.map(({ id }) => id)).size, 1, 'the stream keeps its ID');
  return {
    id: head.header('x-request-id') ?? '',
    text: frames.map(({ choices: [choice] }) => choice?.delta.content ?? '').join(''),
    usage: frames.at(-1)?.usage,
  };
}

test('streams and other responses continue after their engine was killed, and each has one row', async () => {
  const directive = { tokens: 300, tokenMs: 10 };
  const [replica] = service.service.embeddedReplicas;
  const pid = replica?.pid ?? null;
  assert.ok(pid !== null);
  const unbroken = await readStream(await send('test/killed', directive));
  assert.equal(unbroken.text.split(' ').length, 300);
  using first = await send('test/killed', directive);
  using second = await send('test/killed', directive);
  using whole = await send('test/killed', directive, false);
  const running = Promise.withResolvers<void>();
  let started = 0;
  const onText = () => {
    if (++started === 2) running.resolve();
  };
  const streams = [readStream(first, onText), readStream(second, onText)];
  await running.promise;
  // The non-streaming response may start later than the streams.
  await until(async () => {
    const { in_flight: inFlight } = (await management.call('GET', '/api/load')) as { in_flight: number };
    return inFlight === 3;
  });
  process.kill(pid, 'SIGKILL');
  const streamed = await Promise.all(streams);
  const response = await whole.response();
  assert.equal(response.status, 200, response.body);
  assert.notEqual(replica?.pid, pid);
  for (const { text, usage } of streamed) {
    assert.equal(text, unbroken.text);
    assert.deepEqual(usage, unbroken.usage);
  }
  const body = JSON.parse(response.body) as { choices: { message: { content: string } }[]; usage: unknown };
  assert.equal(body.choices[0]?.message.content, unbroken.text);
  assert.deepEqual(body.usage, unbroken.usage);
  const wholeId = response.header('x-request-id') ?? '';
  for (const id of [...streamed.map(({ id }) => id), wholeId]) {
    const { request, retries } = (await management.call('GET', `/api/receipts/${id}`)) as {
      request: Record<string, unknown>;
      retries: number;
    };
    assert.deepEqual(
      [request.state, request.billed, request.completion_tokens, request.usage_source, request.error_code],
      ['settled', true, 300, 'engine', null],
    );
    assert.ok(Number(request.attempts) >= 2);
    assert.equal(retries, Number(request.attempts) - 1);
    // The non-streaming response may have been interrupted before its first token.
    if (id !== wholeId || request.continued_after !== null) {
      assert.ok(Number(request.continued_after) > 0 && Number(request.continued_after) < 300);
    }
  }
});

test('a request that crashes its engine twice ends with the error, costs nothing, and is refused from then on', async () => {
  const model = 'test/crashing';
  const crash: Directive = { tokens: 9, dieAfter: 2 };
  using wire = await send(model, crash);
  const response = await wire.response();
  assert.match(response.body, /"code":"engine_unavailable"/);
  const { request } = await management.call('GET', `/api/receipts/${response.header('x-request-id')}`);
  const { billed, attempts } = request as { billed: boolean; attempts: number };
  assert.deepEqual([billed, attempts >= 2], [false, true]);
  await until(() => service.service.embeddedReplicas.every((each) => each.state().state === 'ready'));
  using again = await send(model, crash);
  assertError(await again.response(), 'request_crashed_engine');
});
