import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import OpenAI from 'openai';
import { HttpReplica } from '../replicas/replicas.ts';
import { requestLog, startService, until } from '../harness.ts';

/** The parts of the calls that the replica returns next. */
let parts: readonly object[] = [];

const replica = await HttpReplica.listen((response, request, body) => {
  if (request.method === 'GET') return response.end('{}');
  const usage = { prompt_tokens: 7, completion_tokens: 5 };
  const frames = [
    ...parts.map((part) => ({ choices: [{ index: 0, delta: { tool_calls: [part] }, finish_reason: null }] })),
    { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }], usage },
  ];
  if (body['stream']) {
    return response.end(frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join(''));
  }
  const message = { role: 'assistant', content: null, tool_calls: parts };
  return response.end(JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage }));
});
after(() => replica[Symbol.asyncDispose]());

const MODEL = 'acme/faulty';
const service = await startService(
  JSON.stringify({
    models: [{ id: MODEL, contextTokens: 4096, replicas: [{ url: replica.url, dialect: 'openai' }] }],
  }),
);
after(() => service[Symbol.asyncDispose]());
const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: service.key, maxRetries: 0 });

const REQUEST = {
  model: MODEL,
  messages: [{ role: 'user' as const, content: 'Hi' }],
  tools: [{ type: 'function' as const, function: { name: 'get_weather', parameters: { type: 'object' } } }],
};

/** Returns the calls of a response or a stream with these parts, and the counts in its log line. */
async function ask(given: readonly object[], streamed: boolean) {
  parts = given;
  const lines = requestLog(service).length;
  const completion = streamed
    ? await client.chat.completions.stream(REQUEST).finalChatCompletion()
    : await client.chat.completions.create(REQUEST);
  await until(() => requestLog(service).length > lines);
  const [choice] = completion.choices;
  assert.equal(choice?.finish_reason, 'tool_calls');
  assert.equal(completion.usage?.completion_tokens, 5);
  const { toolCalls, invalidToolCalls } = requestLog(service).at(-1) ?? {};
  return {
    calls: choice.message.tool_calls?.map((call) => {
      assert.ok(call.type === 'function' && call.id.startsWith('call_'));
      return [call.function.name, call.function.arguments];
    }),
    counts: [toolCalls, invalidToolCalls],
  };
}

const whole = (name: string, text: string) => ({ index: 0, function: { name, arguments: text } });

test('valid calls without an ID are counted', async () => {
  for (const streamed of [true, false]) {
    assert.deepEqual(await ask([whole('get_weather', '{"a":1}')], streamed), {
      calls: [['get_weather', '{"a":1}']],
      counts: [1, 0],
    });
  }
  assert.doesNotMatch(service.log(), /invalid tool calls/);
});

test('a call to a function that was not offered is passed on and counted as invalid', async () => {
  for (const streamed of [true, false]) {
    assert.deepEqual(await ask([whole('delete_everything', '{}')], streamed), {
      calls: [['delete_everything', '{}']],
      counts: [1, 1],
    });
  }
});

test('arguments that are not JSON are passed on as text and counted as invalid', async () => {
  for (const streamed of [true, false]) {
    assert.deepEqual(await ask([whole('get_weather', '{"city": Wien')], streamed), {
      calls: [['get_weather', '{"city": Wien']],
      counts: [1, 1],
    });
  }
  assert.equal(service.log().match(/replica returned invalid tool calls/g)?.length, 1);
  assert.doesNotMatch(service.log(), /Wien|delete_everything/);
});

test('a name in several parts, and parts without an index, become one valid call', async () => {
  const pieces = [
    { id: 'call_1', type: 'function', function: { name: 'get_', arguments: '' } },
    { function: { name: 'weather' } },
    { function: { arguments: '{"a":' } },
    { function: { arguments: '1}' } },
  ];
  assert.deepEqual(await ask(pieces, true), { calls: [['get_weather', '{"a":1}']], counts: [1, 0] });
});
