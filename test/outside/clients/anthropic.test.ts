import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import Anthropic, {
  APIError,
  AuthenticationError,
  BadRequestError,
  ContentTooLargeError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
} from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { z } from 'zod';
import { scripted, type Directive } from '../../support/scripted-engine/directive.ts';
import { requestLog, run, startService, until, untilIdle } from '../../harness.ts';
import {
  CALLS,
  catchError,
  fillQueue,
  FOREVER,
  KILLABLE,
  limitedKeys,
  REAL,
  recordingFetch,
  SCRIPTED,
  startForClients,
  TOO_LARGE,
  TOO_LONG,
  userMessage,
  WITH_MODEL,
} from './fixture.ts';
import { Management } from '../../management.ts';
import { python, WITH_PYTHON } from './python.ts';

const service = await startForClients();
after(() => service[Symbol.asyncDispose]());
const keys = await limitedKeys(service);

const clientOf = (url: string, apiKey: string): Anthropic =>
  new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
const client = clientOf(service.url, service.key);

type Fields = Partial<Anthropic.MessageCreateParamsNonStreaming>;

const paramsOf = (content: string | Directive): Anthropic.MessageCreateParamsNonStreaming => ({
  model: SCRIPTED,
  max_tokens: 1000,
  messages: userMessage(content),
});

/** Creates a message, by default with the scripted model. */
function ask(content: string | Directive, fields: Fields = {}, from = client): Promise<Anthropic.Message> {
  return from.messages.create({ ...paramsOf(content), ...fields });
}

const TOOLS: Anthropic.Tool[] = ['get_weather', 'get_time'].map((name) => ({
  name,
  input_schema: { type: 'object' },
}));

const textOf = ({ content }: Pick<Anthropic.Message, 'content'>): string =>
  content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('');

const callsOf = ({ content }: Pick<Anthropic.Message, 'content'>): [string, unknown][] =>
  content.flatMap((block) => (block.type === 'tool_use' ? [[block.name, block.input]] : []));

describe("Anthropic's client for Node", () => {
  test('a message has its text, usage and request ID', async () => {
    const params = { ...paramsOf({ text: 'Hello 🙂!' }), system: 'Be brief.' };
    const { data: message, request_id: id } = await client.messages.create(params).withResponse();
    assert.equal(textOf(message), 'Hello 🙂!');
    assert.equal(message.stop_reason, 'end_turn');
    assert.ok(message.usage.input_tokens > 0 && message.usage.output_tokens > 0);
    assert.match(id ?? '', /^[0-9a-f-]{36}$/);
  });

  test('a key is accepted in both headers', async () => {
    const bearer = new Anthropic({
      baseURL: service.url,
      authToken: service.key,
      apiKey: null,
      maxRetries: 0,
    });
    assert.equal(textOf(await ask({ text: 'Hi' }, {}, bearer)), 'Hi');
  });

  test('the helper builds the same message from a stream, with thinking, text and calls', async () => {
    const fields = { tools: TOOLS, thinking: { type: 'enabled' as const, budget_tokens: 1024 } };
    const whole = await ask(CALLS, { ...fields, max_tokens: 2000 });
    const stream = client.messages.stream({ ...paramsOf(CALLS), ...fields, max_tokens: 2000 });
    const final = await stream.finalMessage();
    assert.deepEqual(
      final.content.map(({ type }) => type),
      ['thinking', 'text', 'tool_use', 'tool_use'],
    );
    const [thinking] = final.content;
    assert.ok(thinking?.type === 'thinking');
    assert.equal(thinking.thinking, CALLS.reasoning);
    assert.equal(textOf(final), CALLS.text);
    assert.deepEqual(
      callsOf(final),
      CALLS.calls.map(({ name, arguments: input }) => [name, input]),
    );
    assert.deepEqual(callsOf(final), callsOf(whole));
    assert.equal(final.stop_reason, 'tool_use');
    assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
    assert.equal(final.usage.input_tokens, whole.usage.input_tokens);
  });

  test('the runner of the library calls tools until the model answers', async () => {
    const seen: unknown[] = [];
    const tool = (name: string, result: string) =>
      betaTool({
        name,
        description: 'A tool.',
        inputSchema: { type: 'object', properties: {} },
        run: (input) => {
          seen.push([name, input]);
          return result;
        },
      });
    const message = await client.beta.messages.toolRunner({
      ...paramsOf(CALLS),
      messages: [{ role: 'user', content: scripted([CALLS, { text: 'Done.' }]) }],
      tools: [tool('get_weather', 'Snow'), tool('get_time', '12:00')],
    });
    assert.deepEqual(
      message.content.map((block) => (block.type === 'text' ? block.text : block.type)),
      ['Done.'],
    );
    assert.deepEqual(
      seen,
      CALLS.calls.map(({ name, arguments: input }) => [name, input]),
    );
  });

  test('a stop sequence that is spread over parts of the text ends it, and is named', async () => {
    const fields = { stop_sequences: ['never', 'o, w'] };
    const whole = await ask({ text: 'Hello, wörld' }, fields);
    assert.deepEqual(
      [textOf(whole), whole.stop_reason, whole.stop_sequence],
      ['Hell', 'stop_sequence', 'o, w'],
    );
    const final = await client.messages
      .stream({ ...paramsOf({ text: 'Hello, wörld' }), ...fields })
      .finalMessage();
    assert.deepEqual(
      [textOf(final), final.stop_reason, final.stop_sequence],
      ['Hell', 'stop_sequence', 'o, w'],
    );
  });

  test('a message of one token ends with max_tokens, also in thinking and in a call', async () => {
    for (const directive of [{ text: 'a b' }, { reasoning: 'a b', text: 'c' }, { calls: CALLS.calls }]) {
      const whole = await ask(directive, { max_tokens: 1, tools: TOOLS });
      const final = await client.messages
        .stream({ ...paramsOf(directive), max_tokens: 1, tools: TOOLS })
        .finalMessage();
      for (const message of [whole, final]) {
        assert.equal(message.stop_reason, 'max_tokens');
        assert.equal(message.usage.output_tokens, 1);
      }
    }
  });

  test('each fault is the error of its class', async () => {
    const withKey = (key: string) => clientOf(service.url, key);
    const faults: [object, () => Promise<unknown>, RegExp][] = [
      [BadRequestError, () => ask('a', { max_tokens: 0 }), /`max_tokens` must be at least 1/],
      [BadRequestError, () => ask(TOO_LONG), /prompt is too long: \d+ tokens > 4096 maximum/],
      [AuthenticationError, () => ask('a', {}, withKey('sk-sluice-wrong')), /The API key is not valid/],
      [PermissionDeniedError, () => ask('a', {}, withKey(keys.otherModel)), /not allowed to use the model/],
      [NotFoundError, () => ask('a', { model: 'acme/none' }), /does not exist/],
      [ContentTooLargeError, () => ask(TOO_LARGE), /larger than 65536 bytes/],
      [RateLimitError, () => ask('a', {}, withKey(keys.spent)), /1 token per UTC day/],
    ];
    for (const [type, call, message] of faults) {
      const error = await catchError(call());
      assert.ok(error instanceof APIError, String(error));
      assert.equal(error.constructor, type);
      assert.match(error.message, message);
      assert.match(error.requestID ?? '', /^[0-9a-f-]{36}$/);
    }
  });

  test('the client tries again when the service is overloaded, and not with a wrong key', async () => {
    const { fetch, statuses } = recordingFetch();
    const retrying = new Anthropic({ baseURL: service.url, apiKey: service.key, maxRetries: 1, fetch });
    {
      await using _ = await fillQueue(service);
      const error = await catchError(ask('a', {}, retrying));
      assert.ok(error instanceof APIError);
      assert.equal(error.type, 'overloaded_error');
    }
    assert.deepEqual(statuses, [529, 529]);
    statuses.length = 0;
    const wrong = new Anthropic({ baseURL: service.url, apiKey: 'wrong', maxRetries: 3, fetch });
    await catchError(ask('a', {}, wrong));
    assert.deepEqual(statuses, [401]);
  });

  test('an engine that dies while it thinks or calls ends the stream with an error', async () => {
    for (const directive of [
      { reasoning: 'a b c d e f', text: 'g', dieAfter: 3 },
      { calls: [{ name: 'get_time', arguments: { a: 'b c d e f' } }], dieAfter: 3 },
    ]) {
      const stream = await client.messages.create({
        ...paramsOf(directive),
        model: KILLABLE,
        tools: TOOLS,
        stream: true,
      });
      const types: string[] = [];
      const error = await catchError(
        (async () => {
          for await (const { type } of stream) types.push(type);
        })(),
      );
      assert.ok(error instanceof APIError);
      assert.equal(error.type, 'overloaded_error');
      assert.equal(types[1], 'content_block_start');
      assert.ok(!types.includes('content_block_stop'), types.join());
      const answers = () => ask('Hi', { model: KILLABLE }).catch(() => null);
      await until(async () => (await answers()) !== null);
    }
  });

  test('thinking that is continued after its engine died is one block, which can be sent back', async () => {
    // An account with crashes is refused for a while.
    const own = clientOf(service.url, (await (await Management.of(service)).caller()).key);
    const directive = { reasoning: 'a b c d e f', text: 'g', dieAfter: 3, once: true };
    const params = { ...paramsOf(directive), model: KILLABLE };
    const { content } = await own.messages.stream(params).finalMessage();
    assert.deepEqual(
      content.map((block) => (block.type === 'thinking' ? block.thinking : block.type)),
      ['a b c d e f', 'text'],
    );
    const answer = { role: 'assistant' as const, content };
    const messages = [...params.messages, answer, ...userMessage({ text: 'Done.' })];
    const { data, response } = await own.messages.create({ ...params, messages }).withResponse();
    assert.equal(textOf(data), 'Done.');
    assert.equal(response.headers.get('x-sluice-notes'), null);
  });

  test('the log has the status 503 of a request that gets 529', async () => {
    const error = await catchError(ask({ error: 'engine_unavailable' }));
    assert.ok(error instanceof APIError);
    assert.equal(error.status, 529);
    const own = () => requestLog(service).find(({ requestId }) => requestId === error.requestID);
    await until(() => own() !== undefined);
    assert.equal(own()?.['status'], 503);
  });

  test('a key that is revoked while it receives a stream ends it with an error', async () => {
    await using other = await startService(
      `models:\n  - {id: ${SCRIPTED}, required: true, engine: {file: 'scripted:{"tokens":1000,"tokenMs":5}'}}\n`,
    );
    const { key, record } = await other.service.keys.create({ name: 'revoked', kind: 'caller' });
    const stream = await clientOf(other.url, key.reveal()).messages.create({
      ...paramsOf('Hi'),
      stream: true,
    });
    const error = await catchError(
      (async () => {
        let revoked = false;
        for await (const { type } of stream) {
          if (type !== 'content_block_delta' || revoked) continue;
          revoked = true;
          await other.service.keys.revoke(record.id);
        }
      })(),
    );
    assert.ok(error instanceof APIError);
    assert.equal(error.type, 'authentication_error');
  });

  test('a client that waits for a long prompt gets pings, which the library ignores', async () => {
    await using slow = await startService(
      `models:\n  - {id: ${SCRIPTED}, required: true, engine: {file: 'scripted:{}'}}\nstream: {holdMs: 1, keepAliveMs: 5}\n`,
    );
    const params = paramsOf({ startMs: 500, prefillMs: 100, text: 'one two three', tokenMs: 50 });
    const final = await clientOf(slow.url, slow.key).messages.stream(params).finalMessage();
    assert.equal(textOf(final), 'one two three');
    const response = await fetch(`${slow.url}/v1/messages`, {
      method: 'POST',
      headers: { 'x-api-key': slow.key },
      body: JSON.stringify({ ...params, stream: true }),
    });
    const types = Array.from((await response.text()).matchAll(/^event: (.*)$/gm), ([, type]) => type);
    assert.ok(types.indexOf('message_start') > 0);
    assert.deepEqual(new Set(types.slice(0, types.indexOf('message_start'))), new Set(['ping']));
  });

  test('tokens are counted as in a message', async () => {
    const fields = { model: SCRIPTED, messages: userMessage('Count these words.'), tools: TOOLS };
    const { input_tokens } = await client.messages.countTokens(fields);
    const { usage } = await client.messages.create({ ...fields, max_tokens: 1 });
    assert.equal(input_tokens, usage.input_tokens);
  });

  test('models are listed and found by their ID', async () => {
    const ids: string[] = [];
    for await (const { id, type } of client.models.list()) {
      assert.equal(type, 'model');
      ids.push(id);
    }
    assert.ok(ids.includes(SCRIPTED) && ids.includes(KILLABLE));
    const model = await client.models.retrieve(SCRIPTED);
    assert.deepEqual([model.id, model.max_input_tokens], [SCRIPTED, 4096]);
    assert.ok((await catchError(client.models.retrieve('acme/none'))) instanceof NotFoundError);
  });

  test('limits are in the headers of the API', async () => {
    const brief = clientOf(service.url, await keys.brief());
    const { response } = await brief.messages.create(paramsOf('a')).withResponse();
    assert.equal(response.headers.get('anthropic-ratelimit-requests-limit'), '1');
    assert.equal(response.headers.get('anthropic-ratelimit-requests-remaining'), '0');
  });

  test('closing a stream ends the generation', async () => {
    const stream = await client.messages.create({ ...paramsOf({ tokenMs: FOREVER }), stream: true });
    stream.controller.abort();
    await untilIdle(service);
  });
});

describe("Anthropic's client for Node, with the real model", WITH_MODEL, () => {
  test('a text, a stream and a count', async () => {
    const fields = {
      model: REAL,
      system: 'Be brief.',
      messages: userMessage('Name a river.'),
      max_tokens: 8,
      temperature: 0,
    };
    const whole = await client.messages.create(fields);
    const final = await client.messages.stream(fields).finalMessage();
    assert.equal(textOf(final), textOf(whole));
    const { max_tokens: _, temperature: __, ...counted } = fields;
    const { input_tokens } = await client.messages.countTokens(counted);
    const { input_tokens: read, cache_read_input_tokens: cached } = whole.usage;
    assert.equal(input_tokens, read + (cached ?? 0));
  });

  test('a forced call and a format with a schema', async () => {
    const parameters = z.object({ size: z.enum(['small', 'large']) });
    const called = await client.messages.create({
      model: REAL,
      messages: userMessage('Paint a house.'),
      tools: [
        {
          name: 'paint',
          strict: true,
          input_schema: {
            type: 'object',
            properties: { size: { type: 'string', enum: ['small', 'large'] } },
            required: ['size'],
            additionalProperties: false,
          },
        },
      ],
      tool_choice: { type: 'tool', name: 'paint', disable_parallel_tool_use: true },
      max_tokens: 100,
    });
    const [call] = called.content;
    assert.ok(call?.type === 'tool_use');
    assert.ok(parameters.safeParse(call.input).success);
    const formatted = await client.messages.parse({
      model: REAL,
      messages: userMessage('Describe a house.'),
      output_config: { format: zodOutputFormat(parameters) },
      max_tokens: 100,
    });
    assert.ok(parameters.safeParse(formatted.parsed_output).success);
  });
});

describe("Anthropic's client for Python", WITH_PYTHON, () => {
  test('a message, a stream with the helper, a conversation with results, a count, models and an error', async () => {
    const env = { ...process.env, SLUICE_URL: service.url, SLUICE_KEY: service.key, SLUICE_MODEL: SCRIPTED };
    const input = JSON.stringify({
      everything: scripted(CALLS),
      done: scripted({ text: 'Done.' }),
      tools: TOOLS,
    });
    const script = join(import.meta.dirname, 'anthropic_messages.py');
    const { code, stdout, stderr } = await run(python, [script], env, { input });
    assert.equal(code, 0, stderr);
    assert.deepEqual(JSON.parse(stdout), {
      text: CALLS.text,
      types: ['thinking', 'text', 'tool_use', 'tool_use'],
      same: true,
      input: CALLS.calls[0]?.arguments,
      second: 'Done.',
      counted: true,
      models: true,
      error: ['NotFoundError', 'not_found_error'],
    });
  });
});
