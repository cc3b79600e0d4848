import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import OpenAI, { InternalServerError } from 'openai';
import { scripted, type Directive } from '../../src/engine/scripted/options.ts';
import { MODEL, ready, requestLog, startService, until } from '../harness.ts';

/** A provider: a second service with its own keys. */
const provider = await startService();
after(() => provider[Symbol.asyncDispose]());

const HOSTED = 'acme/hosted';
const replica = { url: `${provider.url}/v1`, dialect: 'openai', apiKeyEnv: 'PROVIDER_KEY', model: MODEL };
const service = await startService(JSON.stringify({ models: [{ id: HOSTED, replicas: [replica] }] }), {
  PROVIDER_KEY: provider.key,
});
after(() => service[Symbol.asyncDispose]());
await ready(service.service);

const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: service.key, maxRetries: 0 });
const ask = (directive: Directive) => ({
  model: HOSTED,
  messages: [{ role: 'user' as const, content: scripted(directive) }],
});

const tool = (name: string) => ({
  type: 'function' as const,
  function: { name, parameters: { type: 'object', properties: { city: { type: 'string' } } } },
});
const TOOLS = [tool('weather'), tool('time')];
const ALLOWED = {
  type: 'allowed_tools' as const,
  allowed_tools: {
    mode: 'auto' as const,
    tools: [{ type: 'function', function: { name: 'weather' } }],
  },
};
const CALLS = [
  { name: 'weather', arguments: { city: 'Wien "I"' } },
  { name: 'time', arguments: {} },
];

describe('openai for Node, through a replica with the dialect openai', () => {
  test('a model is listed with the context length of the provider', async () => {
    const { data } = await client.models.list();
    const listed: unknown[] = data.map((model) => ({ ...model }));
    assert.equal((listed[0] as { context_length: number }).context_length, 4096);
  });

  test('a chat and its stream have the same text, reasoning and usage', async () => {
    const request = ask({ text: 'hé 東京', reasoning: 'Hm, let me see' });
    const whole = await client.chat.completions.create(request);
    const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
    const streamed = await stream.finalChatCompletion();
    for (const completion of [whole, streamed]) {
      assert.equal(completion.model, HOSTED);
      assert.equal(completion.choices[0]?.message.content, 'hé 東京');
      assert.equal(completion.choices[0]?.finish_reason, 'stop');
      assert.deepEqual(completion.usage, whole.usage);
    }
    assert.ok((whole.usage?.completion_tokens_details?.reasoning_tokens ?? 0) > 0);
    const reasoning = { ...whole.choices[0]?.message } as { reasoning_content?: string };
    assert.equal(reasoning.reasoning_content, 'Hm, let me see');
  });

  test('a text completion and its stream have the same text', async () => {
    const request = { model: HOSTED, prompt: scripted({ text: 'one two' }) };
    const whole = await client.completions.create(request);
    let text = '';
    for await (const chunk of await client.completions.create({ ...request, stream: true })) {
      text += chunk.choices[0]?.text ?? '';
    }
    assert.deepEqual([whole.choices[0]?.text, text], ['one two', 'one two']);
  });

  test('calls are returned, whole and streamed, and their results are sent back', async () => {
    const request = { ...ask({ text: 'See', calls: CALLS }), tools: TOOLS };
    const whole = await client.chat.completions.create(request);
    const streamed = await client.chat.completions.stream(request).finalChatCompletion();
    for (const completion of [whole, streamed]) {
      const [choice] = completion.choices;
      assert.equal(choice?.finish_reason, 'tool_calls');
      const calls = (choice.message.tool_calls ?? []).map((call) => {
        assert.ok(call.type === 'function' && call.id.startsWith('call_'));
        return { name: call.function.name, arguments: JSON.parse(call.function.arguments) as object };
      });
      assert.deepEqual(calls, CALLS);
      const results = (choice.message.tool_calls ?? []).map(({ id }) => ({
        role: 'tool' as const,
        tool_call_id: id,
        content: 'sunny',
      }));
      const next = await client.chat.completions.create({
        model: HOSTED,
        messages: [
          ...request.messages,
          choice.message,
          ...results,
          { role: 'user', content: scripted({ text: 'Sunny.' }) },
        ],
        tools: TOOLS,
        tool_choice: ALLOWED,
      });
      assert.equal(next.choices[0]?.message.content, 'Sunny.');
    }
  });

  test('a field outside of the API of OpenAI is refused by its name', async () => {
    for (const [name, value] of [
      ['top_k', 5],
      ['min_p', 0.1],
      ['repetition_penalty', 1.1],
      ['chat_template_kwargs', { a: 1 }],
    ] as const) {
      const request = { ...ask({}), [name]: value };
      await assert.rejects(client.chat.completions.create(request), {
        status: 400,
        code: 'unsupported_parameter',
        param: name,
      });
    }
    await client.chat.completions.create({ ...ask({}), top_k: 0 } as ReturnType<typeof ask>);
    const format = { type: 'json_object' };
    const request = { model: HOSTED, prompt: 'a', response_format: format };
    await assert.rejects(client.completions.create(request), { status: 400, param: 'response_format' });
  });

  test('an error of the provider that the caller can fix is a 400 with its message', async () => {
    const request = ask({ error: 'context_length_exceeded' });
    await assert.rejects(client.chat.completions.create(request), {
      status: 400,
      code: 'context_length_exceeded',
    });
  });

  test('a key that the provider refuses is a 503, and the log has the reason once', async () => {
    const [key] = await provider.service.keys.list();
    assert.ok(key);
    await provider.service.keys.revoke(key.id);
    for (let turn = 0; turn < 3; turn++) {
      await assert.rejects(client.chat.completions.create(ask({})), (error) => {
        assert.ok(error instanceof InternalServerError);
        assert.deepEqual([error.status, error.code], [503, 'engine_unavailable']);
        assert.doesNotMatch(error.message, /key/i);
        return true;
      });
    }
    await until(() => requestLog(service).length > 0);
    const warnings = service.log().match(/replica denied access to this service/g);
    assert.equal(warnings?.length, 1);
    assert.match(
      service.log(),
      /"cause":"the replica refused the API key with status 401 \(invalid_api_key\)"/,
    );
    assert.ok(!service.log().includes(provider.key));
  });
});
