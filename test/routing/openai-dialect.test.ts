import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import OpenAI, { InternalServerError } from 'openai';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { HttpReplica, respondHello } from '../replicas/replicas.ts';
import { MODEL, openService, ready, requestLog, startService, until } from '../harness.ts';

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

  test("a field that OpenAI's API does not have is refused by name", async () => {
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
    await provider.service.keys.revoke(provider.key);
    for (let turn = 0; turn < 3; turn++) {
      await assert.rejects(client.chat.completions.create(ask({})), (error) => {
        assert.ok(error instanceof InternalServerError);
        assert.deepEqual([error.status, error.code], [503, 'engine_unavailable']);
        assert.doesNotMatch(error.message, /key/i);
        return true;
      });
    }
    await until(() => requestLog(service).length > 0);
    const warnings = service.log().match(/this service has no access to the replica/g);
    assert.equal(warnings?.length, 1);
    assert.match(
      service.log(),
      /"cause":"the replica refused the API key with status 401 \(invalid_api_key\)"/,
    );
    assert.ok(!service.log().includes(provider.key));
  });
});

describe('a provider', () => {
  /** Starts a service with this provider, and waits for its first health check. */
  async function serve(url: string, fields: object = {}, replicaFields: object = {}) {
    const replicas = [{ url, dialect: 'openai', apiKeyEnv: 'PROVIDER_KEY', ...replicaFields }];
    const yaml = JSON.stringify({ models: [{ id: HOSTED, ...fields, replicas }] });
    const opened = await openService(yaml, { PROVIDER_KEY: 'k', GATEWAY_KEY: 'g4teway' });
    const state = () => opened.service.router.overview()[0]?.replicas[0]?.state;
    await until(() => state()?.state !== 'loading');
    return { ...opened, state };
  }

  test('without a list of models is ready, and is listed with the configured context length', async () => {
    await using server = await HttpReplica.listen((response, request, body) => {
      if (request.method === 'GET') return response.writeHead(404).end('not found');
      return respondHello(response, request, body);
    });
    await using unknown = await serve(server.url);
    assert.equal(unknown.state()?.state, 'ready');
    assert.deepEqual(unknown.service.router.cards(), []);
    assert.match(
      unknown.log(),
      /does not report the context length of the model; set models\[\]\.contextTokens/,
    );
    await using known = await serve(server.url, { contextTokens: 2048 });
    assert.equal(known.service.router.cards()[0]?.context_length, 2048);
    assert.doesNotMatch(known.log(), /does not report the context length/);
  });

  test('that refuses the key is down, with the reason', async () => {
    await using server = await HttpReplica.listen((response) => response.writeHead(401).end('{}'));
    await using opened = await serve(server.url);
    assert.deepEqual(opened.state(), {
      state: 'down',
      reason: 'its health check failed: the server refused the API key with status 401',
      retryInMs: 5000,
    });
  });

  test('gets its path, key and additional headers with each request', async () => {
    const received: unknown[] = [];
    await using server = await HttpReplica.listen((response, request, body) => {
      const { authorization, 'x-title': title, 'x-gateway': gateway } = request.headers;
      received.push([request.method, request.url, authorization, title, gateway]);
      if (request.method === 'GET') return response.end('{}');
      request.url = '/v1/chat/completions';
      return respondHello(response, request, body);
    });
    const headers = { headers: { 'X-Title': 'Sluice' }, headersEnv: { 'X-Gateway': 'GATEWAY_KEY' } };
    await using opened = await serve(`${server.url}/v1beta/openai/`, { contextTokens: 2048 }, headers);
    const { key } = await opened.service.keys.create({ name: 'test' });
    const caller = new OpenAI({ baseURL: `${opened.url}/v1`, apiKey: key.reveal(), maxRetries: 0 });
    const completion = await caller.chat.completions.create(ask({}));
    assert.equal(completion.choices[0]?.message.content, 'hé 東京');
    const rest = ['Bearer k', 'Sluice', 'g4teway'];
    assert.deepEqual(received[0], ['GET', '/v1beta/openai/models', ...rest]);
    assert.deepEqual(received.at(-1), ['POST', '/v1beta/openai/chat/completions', ...rest]);
    assert.doesNotMatch(opened.log(), /g4teway/);
  });
});
