import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import OpenAI, { BadRequestError, NotFoundError } from 'openai';
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import { z } from 'zod';
import { scripted, type Directive } from '../../support/scripted-engine/directive.ts';
import { run, startService, until, untilIdle } from '../../harness.ts';
import { Management } from '../../management.ts';
import { CALLS, FOREVER, KILLABLE, REAL, SCRIPTED, startForClients, WITH_MODEL } from './fixture.ts';
import { python, WITH_PYTHON } from './python.ts';

const service = await startForClients();
after(() => service[Symbol.asyncDispose]());

const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: service.key, maxRetries: 0 });

type Fields = Partial<OpenAI.Responses.ResponseCreateParamsNonStreaming>;

/** Creates a response, by default with the scripted model. */
function respond(directive: Directive, fields: Fields = {}): Promise<OpenAI.Responses.Response> {
  return client.responses.create({ model: SCRIPTED, input: scripted(directive), ...fields });
}

const functionTool = (name: string): OpenAI.Responses.FunctionTool => ({
  type: 'function',
  name,
  parameters: { type: 'object' },
  strict: false,
});

const TOOLS: OpenAI.Responses.Tool[] = [
  functionTool('get_weather'),
  functionTool('get_time'),
  { type: 'custom', name: 'patch' },
];

const EVERYTHING: Directive = {
  ...CALLS,
  calls: [...CALLS.calls, { name: 'patch', arguments: { input: 'line "1"\n🙂' } }],
};

/** Reads a stream with the helper, which checks the order of events. */
async function streamed(
  fields: Parameters<typeof client.responses.stream>[0],
): Promise<{ events: ResponseStreamEvent[]; final: OpenAI.Responses.Response }> {
  const stream = client.responses.stream(fields);
  const events: ResponseStreamEvent[] = [];
  stream.on('event', (event) => void events.push(event));
  return { final: await stream.finalResponse(), events };
}

/** The names and arguments of the calls of a response. */
const callsOf = ({ output }: Pick<OpenAI.Responses.Response, 'output'>): string[][] =>
  output.flatMap((item) => {
    if (item.type === 'function_call') return [[item.name, item.arguments]];
    return item.type === 'custom_tool_call' ? [[item.name, item.input]] : [];
  });

/** A service that sends keep-alives early. */
const IMPATIENT = `models:
  - {id: ${SCRIPTED}, required: true, engine: {file: 'scripted:{}'}}
stream: {holdMs: 1, keepAliveMs: 5}
`;

describe('openai for Node, responses', () => {
  test('a response has its text and usage', async () => {
    const response = await respond({ text: 'Hello 🙂!' });
    assert.equal(response.output_text, 'Hello 🙂!');
    assert.equal(response.status, 'completed');
    assert.ok((response.usage?.output_tokens ?? 0) > 0);
  });

  test('the helper builds the same response from a stream, with reasoning, text and every kind of call', async () => {
    const fields = { tools: TOOLS, include: ['reasoning.encrypted_content' as const] };
    const whole = await respond(EVERYTHING, fields);
    const { final, events } = await streamed({ model: SCRIPTED, input: scripted(EVERYTHING), ...fields });
    assert.deepEqual(
      final.output.map(({ type }) => type),
      ['reasoning', 'message', 'function_call', 'function_call', 'custom_tool_call'],
    );
    assert.equal(final.output_text, whole.output_text);
    assert.deepEqual(callsOf(final), callsOf(whole));
    assert.deepEqual(callsOf(whole).at(-1), ['patch', 'line "1"\n🙂']);
    assert.ok(events.some(({ type }) => type === 'response.custom_tool_call_input.delta'));
  });

  test('an agent sends the output back with results', async () => {
    const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: scripted(EVERYTHING) }];
    const first = await client.responses.create({
      model: SCRIPTED,
      input,
      tools: TOOLS,
      include: ['reasoning.encrypted_content'],
    });
    for (const item of first.output) {
      input.push(item as OpenAI.Responses.ResponseInputItem);
    }
    for (const item of first.output) {
      if (item.type === 'function_call')
        input.push({ type: 'function_call_output', call_id: item.call_id, output: 'ok' });
      if (item.type === 'custom_tool_call')
        input.push({ type: 'custom_tool_call_output', call_id: item.call_id, output: 'ok' });
    }
    input.push({ role: 'user', content: scripted({ text: 'Done.' }) });
    const second = await client.responses.create({ model: SCRIPTED, input, tools: TOOLS });
    assert.equal(second.output_text, 'Done.');
  });

  test('a response of one token is incomplete, also in reasoning and in a call', async () => {
    for (const directive of [{ text: 'a b' }, { reasoning: 'a b', text: 'c' }, { calls: CALLS.calls }]) {
      const fields = { tools: TOOLS, max_output_tokens: 1 };
      const whole = await respond(directive, fields);
      const { final } = await streamed({ model: SCRIPTED, input: scripted(directive), ...fields });
      for (const { status, incomplete_details, usage, output } of [whole, final]) {
        assert.deepEqual([status, incomplete_details], ['incomplete', { reason: 'max_output_tokens' }]);
        assert.equal(usage?.output_tokens, 1);
        assert.equal(output.length, 1);
      }
    }
  });

  test('reasoning that is continued after its engine died is one item, which can be sent back', async () => {
    // An account with crashes is refused for a while.
    const { key } = await (await Management.of(service)).caller();
    const own = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 });
    const fields = { model: KILLABLE, include: ['reasoning.encrypted_content' as const] };
    const input = scripted({ reasoning: 'a b c d e f', text: 'g', dieAfter: 3, once: true });
    const { output } = await own.responses.stream({ ...fields, input }).finalResponse();
    assert.deepEqual(
      output.map((item) => (item.type === 'reasoning' ? item.content?.[0]?.text : item.type)),
      ['a b c d e f', 'message'],
    );
    const history = [
      { role: 'user' as const, content: input },
      ...(output as OpenAI.Responses.ResponseInputItem[]),
      { role: 'user' as const, content: scripted({ text: 'Done.' }) },
    ];
    const { data, response } = await own.responses.create({ ...fields, input: history }).withResponse();
    assert.equal(data.output_text, 'Done.');
    assert.equal(response.headers.get('x-sluice-notes'), null);
  });

  test('what needs stored responses is refused', async () => {
    await assert.rejects(respond({}, { previous_response_id: 'resp_1' }), (error) => {
      assert.ok(error instanceof BadRequestError);
      assert.equal(error.param, 'previous_response_id');
      return true;
    });
    await assert.rejects(client.responses.retrieve('resp_1'), (error) => {
      assert.ok(error instanceof NotFoundError);
      assert.match(error.message, /Responses are not stored/);
      return true;
    });
    await assert.rejects(client.responses.cancel('resp_1'), NotFoundError);
    await assert.rejects(client.responses.delete('resp_1'), NotFoundError);
  });

  test('an engine that dies while it thinks or calls ends the stream with `response.failed`', async () => {
    for (const directive of [
      { reasoning: 'a b c d e f', text: 'g', dieAfter: 3 },
      { calls: [{ name: 'get_time', arguments: { a: 'b c d e f' } }], dieAfter: 3 },
    ]) {
      const stream = await client.responses.create({
        model: KILLABLE,
        input: scripted(directive),
        tools: TOOLS,
        stream: true,
      });
      const events: ResponseStreamEvent[] = [];
      for await (const event of stream) events.push(event);
      const last = events.at(-1);
      assert.ok(last?.type === 'response.failed');
      assert.equal(last.response.error?.code, 'server_error');
      assert.equal(last.response.output[0]?.type, 'reasoning' in directive ? 'reasoning' : 'function_call');
      events.forEach(({ sequence_number }, index) => assert.equal(sequence_number, index));
      const answer = () => client.responses.create({ model: KILLABLE, input: 'Hi' }).catch(() => null);
      await until(async () => (await answer()) !== null);
    }
  });

  test('a key that is revoked while it receives a stream ends it with `response.failed`', async () => {
    await using other = await startService(
      `models:\n  - {id: ${SCRIPTED}, required: true, engine: {file: 'scripted:{"tokens":1000,"tokenMs":5}'}}\n`,
    );
    const { key, record } = await other.service.keys.create({ name: 'revoked', kind: 'caller' });
    const own = new OpenAI({ baseURL: `${other.url}/v1`, apiKey: key.reveal(), maxRetries: 0 });
    const stream = await own.responses.create({ model: SCRIPTED, input: 'Hi', stream: true });
    let last: ResponseStreamEvent | null = null;
    for await (const event of stream) {
      if (last?.type !== 'response.output_text.delta' && event.type === 'response.output_text.delta') {
        await other.service.keys.revoke(record.id);
      }
      last = event;
    }
    assert.ok(last?.type === 'response.failed');
    assert.equal(last.response.error?.code, 'invalid_api_key');
  });

  test('the helper ignores the events that keep a waiting client', async () => {
    await using slow = await startService(IMPATIENT);
    const own = new OpenAI({ baseURL: `${slow.url}/v1`, apiKey: slow.key, maxRetries: 0 });
    const stream = own.responses.stream({
      model: SCRIPTED,
      input: scripted({ startMs: 500, prefillMs: 100, text: 'one two three', tokenMs: 50 }),
    });
    const types: string[] = [];
    stream.on('event', (event) => void types.push(event.type));
    const final = await stream.finalResponse();
    assert.equal(final.output_text, 'one two three');
    assert.deepEqual(types.slice(0, 3), ['response.created', 'response.in_progress', 'keepalive']);
  });

  test('closing a stream ends the generation', async () => {
    const stream = await client.responses.create({
      model: SCRIPTED,
      input: scripted({ tokenMs: FOREVER }),
      stream: true,
    });
    stream.controller.abort();
    await untilIdle(service);
  });
});

describe('openai for Node, responses of the real model', WITH_MODEL, () => {
  test('a text and a stream', async () => {
    const fields = {
      model: REAL,
      instructions: 'Be brief.',
      input: 'Name a river.',
      max_output_tokens: 8,
      temperature: 0,
    };
    const whole = await client.responses.create(fields);
    const { final } = await streamed(fields);
    assert.equal(final.output_text, whole.output_text);
    assert.ok((whole.usage?.input_tokens ?? 0) > 0);
  });

  test('a call and a format with a schema', async () => {
    const parameters = z.object({ size: z.enum(['small', 'large']) });
    const called = await client.responses.parse({
      model: REAL,
      input: 'Paint a house.',
      tools: [zodResponsesFunction({ name: 'paint', parameters })],
      tool_choice: { type: 'function', name: 'paint' },
      parallel_tool_calls: false,
      max_output_tokens: 100,
    });
    const [item] = called.output;
    assert.ok(item?.type === 'function_call');
    assert.ok(parameters.safeParse(item.parsed_arguments).success);
    const formatted = await client.responses.parse({
      model: REAL,
      input: 'Describe a house.',
      text: { format: zodTextFormat(parameters, 'house') },
      max_output_tokens: 100,
    });
    assert.ok(parameters.safeParse(formatted.output_parsed).success);
  });
});

describe('openai for Python, responses', WITH_PYTHON, () => {
  test('a response, a stream with the helper that has to wait, and a conversation with results', async () => {
    await using slow = await startService(IMPATIENT);
    const env = { ...process.env, SLUICE_URL: slow.url, SLUICE_KEY: slow.key, SLUICE_MODEL: SCRIPTED };
    const input = JSON.stringify({
      everything: scripted({ ...EVERYTHING, startMs: 500, prefillMs: 100 }),
      done: scripted({ text: 'Done.' }),
      tools: TOOLS,
    });
    const script = join(import.meta.dirname, 'openai_responses.py');
    const { code, stdout, stderr } = await run(python, [script], env, { input });
    assert.equal(code, 0, stderr);
    assert.deepEqual(JSON.parse(stdout), {
      text: CALLS.text,
      types: ['reasoning', 'message', 'function_call', 'function_call', 'custom_tool_call'],
      same: true,
      waited: true,
      input: 'line "1"\n🙂',
      second: 'Done.',
    });
  });
});
