import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import OpenAI from 'openai';
import type { FinishReason } from '../../src/core/generation.ts';
import { HttpReplica } from '../replicas/replicas.ts';
import { requestLog, runCli, startService, until } from '../harness.ts';

/** The finish reason that the replica returns next. */
let reason = 'stop';

const CALL = {
  index: 0,
  id: 'call_1',
  type: 'function' as const,
  function: { name: 'get_weather', arguments: '{"city": "Os' },
};

/** Returns 'Hel', with a call that is cut off if tools are offered. */
const replica = await HttpReplica.listen((response, request, body) => {
  if (request.method === 'GET') return response.end('{}');
  const usage = { prompt_tokens: 7, completion_tokens: 5 };
  const isChat = request.url === '/v1/chat/completions';
  const calls = body['tools'] === undefined ? {} : { tool_calls: [CALL] };
  const output = isChat ? { message: { content: 'Hel', ...calls } } : { text: 'Hel' };
  if (!body['stream']) {
    const choices = [{ index: 0, ...output, finish_reason: reason }];
    return response.end(JSON.stringify({ choices, usage }));
  }
  const { message, ...rest } = output;
  const choices = [
    { index: 0, ...rest, ...(message && { delta: message }), finish_reason: null },
    { index: 0, ...(isChat ? { delta: {} } : { text: '' }), finish_reason: reason },
  ];
  const frames = choices.map((choice) => `data: ${JSON.stringify({ choices: [choice], usage })}\n\n`);
  return response.end(`${frames.join('')}data: [DONE]\n\n`);
});
after(() => replica[Symbol.asyncDispose]());

/** The replica, as a server of a known type and as a provider. */
const DIALECTS = ['vllm', 'openai'] as const;
const service = await startService(
  JSON.stringify({
    models: DIALECTS.map((dialect) => ({
      id: `acme/${dialect}`,
      contextTokens: 4096,
      replicas: [{ url: replica.url, dialect }],
    })),
  }),
);
after(() => service[Symbol.asyncDispose]());
const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: service.key, maxRetries: 0 });

const tool = { type: 'function' as const, function: { name: 'get_weather', parameters: { type: 'object' } } };

/** Returns the finish reasons of a chat and of a text completion, whole and streamed. */
async function reasonsOf(dialect: (typeof DIALECTS)[number]): Promise<(string | null | undefined)[]> {
  const model = `acme/${dialect}`;
  const chat = { model, messages: [{ role: 'user' as const, content: 'Hi' }] };
  const text = { model, prompt: 'Hi' };
  const wholes = [await client.chat.completions.create(chat), await client.completions.create(text)];
  const streams = [
    await client.chat.completions.create({ ...chat, stream: true }),
    await client.completions.create({ ...text, stream: true }),
  ];
  const reasons = wholes.map(({ choices }) => choices[0]?.finish_reason);
  for (const stream of streams) {
    let last;
    for await (const { choices } of stream) last = choices[0]?.finish_reason ?? last;
    reasons.push(last);
  }
  return reasons;
}

for (const dialect of DIALECTS) {
  test(`content_filter of a replica with the dialect ${dialect} reaches the caller`, async () => {
    reason = 'content_filter';
    assert.deepEqual(
      await reasonsOf(dialect),
      Array.from({ length: 4 }, () => 'content_filter'),
    );
  });

  test(`other reasons of a replica with the dialect ${dialect} become those of OpenAI`, async () => {
    const converted: readonly (readonly [string, FinishReason])[] = [
      ['SAFETY', 'content_filter'],
      ['max_tokens', 'length'],
      ['function_call', 'stop'], // Without a call.
      ['unheard_of', 'stop'],
    ];
    for (const [received, expected] of converted) {
      reason = received;
      assert.deepEqual(
        await reasonsOf(dialect),
        Array.from({ length: 4 }, () => expected),
        received,
      );
    }
  });
}

test('a call that a content filter cuts off is returned in part, and is not counted as invalid', async () => {
  reason = 'content_filter';
  const request = {
    model: 'acme/openai',
    messages: [{ role: 'user' as const, content: 'Hi' }],
    tools: [tool],
  };
  const whole = await client.chat.completions.create(request);
  const stream = await client.chat.completions.create({ ...request, stream: true });
  let parts = '';
  let last: string | null = null;
  for await (const { choices } of stream) {
    const [choice] = choices;
    parts += choice?.delta.tool_calls?.[0]?.function?.arguments ?? '';
    last = choice?.finish_reason ?? last;
  }
  const [choice] = whole.choices;
  assert.deepEqual(
    [choice?.finish_reason, choice?.message.tool_calls?.[0], last, parts],
    [
      'content_filter',
      { id: 'call_1', type: 'function', function: CALL.function },
      'content_filter',
      '{"city": "Os',
    ],
  );
  await until(() => requestLog(service).at(-1)?.['stream'] === true);
  const { finishReason, toolCalls, invalidToolCalls } = requestLog(service).at(-1) ?? {};
  assert.deepEqual([finishReason, toolCalls, invalidToolCalls], ['content_filter', 1, 0]);
});

test('content_filter is in the receipt and in the export of the ledger', async () => {
  reason = 'content_filter';
  const { _request_id: id } = await client.chat.completions.create({
    model: 'acme/openai',
    messages: [{ role: 'user', content: 'Hi' }],
  });
  assert.ok(typeof id === 'string');
  const receipt = await runCli(['receipt', id], service.env);
  assert.match(receipt.stdout, /^ +state +settled, 200, content_filter$/m);
  const csv = await runCli(['ledger', 'export'], service.env);
  assert.match(csv.stdout, new RegExp(`^${id},.*,content_filter,`, 'm'));
});
