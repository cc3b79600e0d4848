import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { DIALECTS, type Dialect, type GenerationRequest } from '../../src/generation.ts';
import { parseChatRequest } from '../../src/openai/chat-request.ts';
import { formatRequest } from '../../src/openai/replica-request.ts';
import { parseTextRequest } from '../../src/openai/text-request.ts';
import { CALLER, chat, text } from './samples.ts';

const to = (dialect: Dialect, request: GenerationRequest, cacheOff = false) =>
  formatRequest(request, {
    model: 'm',
    stream: request.stream,
    dialect,
    cacheOff,
    maxTokens: request.maxTokens,
  });

const PLAIN = { temperature: 1, top_p: 1, min_p: 0, presence_penalty: 0, frequency_penalty: 0 };
const HEAD = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], stream: false };

test('a plain chat includes all sampling parameters that the dialect supports', () => {
  const { request } = chat();
  assert.deepEqual(to('sluice', request), { ...HEAD, ...PLAIN, repetition_penalty: 1 });
  assert.deepEqual(to('vllm', request), { ...HEAD, ...PLAIN, top_k: -1, repetition_penalty: 1 });
  assert.deepEqual(to('sglang', request), { ...HEAD, ...PLAIN, top_k: -1, repetition_penalty: 1 });
  assert.deepEqual(to('llama-server', request), { ...HEAD, ...PLAIN, top_k: 0, repeat_penalty: 1 });
  assert.deepEqual(to('tgi', request), { ...HEAD, temperature: 1 });
});

test('streams request usage, and continuous usage where it covers the whole request', () => {
  const one = chat({ stream: true }).request;
  const two = text({ stream: true, prompt: ['a', 'b'] }).request;
  const choices = chat({ stream: true, n: 2 }).request;
  const both = { include_usage: true, continuous_usage_stats: true };
  const expected: Record<Dialect, [object, object]> = {
    sluice: [both, both],
    vllm: [both, { include_usage: true }],
    sglang: [both, { include_usage: true }],
    'llama-server': [{ include_usage: true }, { include_usage: true }],
    tgi: [{ include_usage: true }, { include_usage: true }],
  };
  for (const dialect of DIALECTS) {
    assert.deepEqual(
      [to(dialect, one).stream_options, to(dialect, two).stream_options],
      expected[dialect],
      dialect,
    );
    assert.deepEqual(to(dialect, choices).stream_options, expected[dialect][0], dialect);
  }
});

test('fields are renamed and converted for each dialect', () => {
  const { request } = chat({
    repetition_penalty: 1.1,
    logit_bias: { 5: 1 },
    top_k: 7,
    seed: 0xffff_ffff,
    logprobs: true,
    stop: ['a'],
    max_completion_tokens: 9,
  });
  const llama = to('llama-server', request);
  assert.deepEqual(
    [llama.repeat_penalty, llama.logit_bias, llama.top_k, llama.seed, llama.top_logprobs, llama.max_tokens],
    [1.1, [[5, 1]], 7, 0xffff_fffe, 1, 9],
  );
  const vllm = to('vllm', request);
  assert.deepEqual(
    [vllm.repetition_penalty, vllm.logit_bias, vllm.top_k, vllm.seed, vllm.top_logprobs, vllm.max_tokens],
    [1.1, { 5: 1 }, 7, 0xffff_ffff, 0, 9],
  );
  assert.equal(to('tgi', chat({ top_p: 0.5 }).request).top_p, 0.5);
});

test('one prompt is sent as a string, several as an array; `max_tokens` is never null', () => {
  assert.equal(to('vllm', text().request).prompt, 'Once');
  assert.deepEqual(to('vllm', text({ prompt: ['a', 'b'] }).request).prompt, ['a', 'b']);
  for (const dialect of DIALECTS) assert.ok(!('max_tokens' in to(dialect, text().request)));
});

test('vLLM requests include one more alternative, up to the maximum, because the sampled token may replace one', () => {
  const chatOf = (top_logprobs: number) => to('vllm', chat({ logprobs: true, top_logprobs }).request);
  assert.deepEqual(
    [0, 1, 5, 19, 20].map((count) => chatOf(count).top_logprobs),
    [0, 2, 6, 20, 20],
  );
  assert.deepEqual(
    [0, 1, 5].map((logprobs) => to('vllm', text({ logprobs }).request).logprobs),
    [0, 2, 6],
  );
  assert.equal(to('sluice', chat({ logprobs: true, top_logprobs: 5 }).request).top_logprobs, 5);
});

test('accounts are separated by a salt, or the cache is disabled', () => {
  const request = { ...chat().request, cacheScope: 'scope' };
  assert.deepEqual(
    DIALECTS.map((dialect) => to(dialect, request, true).cache_salt),
    ['scope', 'scope', 'scope', undefined, undefined],
  );
  assert.equal(to('llama-server', request, true).cache_prompt, false);
  assert.ok(!('cache_prompt' in to('llama-server', request, false)));
});

test('response formats are sent in the field that the server reads', () => {
  const schema = { type: 'object' };
  const response_format = { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } };
  assert.deepEqual(to('vllm', chat({ response_format }).request).response_format, response_format);
  assert.deepEqual(to('llama-server', text({ response_format }).request).json_schema, schema);
  assert.deepEqual(
    to('llama-server', text({ response_format: { type: 'json_object' } }).request).json_schema,
    schema,
  );
  const any = { type: 'json_schema', json_schema: { name: 'n', schema: true } };
  assert.deepEqual(to('vllm', chat({ response_format: any }).request).response_format, {
    type: 'json_schema',
    json_schema: { name: 'n', schema: {} },
  });
});

test('a Sluice engine parses the same request as the service', () => {
  const fields = fc.record(
    {
      temperature: fc.double({ min: 0, max: 2, noNaN: true }).map((value) => value + 0),
      top_p: fc.double({ min: 0, minExcluded: true, max: 1, noNaN: true }),
      top_k: fc.nat(100),
      min_p: fc.double({ min: 0, max: 1, noNaN: true }).map((value) => value + 0),
      seed: fc.maxSafeInteger(),
      presence_penalty: fc.integer({ min: -2, max: 2 }),
      repetition_penalty: fc.constantFrom(0.5, 1, 2),
      logit_bias: fc.dictionary(fc.nat(100_000).map(String), fc.integer({ min: -100, max: 100 })),
      stop: fc.array(fc.string({ unit: 'binary', minLength: 1, maxLength: 9 }), { maxLength: 4 }),
      n: fc.integer({ min: 1, max: 3 }),
      max_tokens: fc.integer({ min: 1 }),
      response_format: fc.constantFrom(
        { type: 'text' },
        { type: 'json_object' },
        {
          type: 'json_schema',
          json_schema: { name: 'n', schema: { type: 'object' }, strict: false },
        },
      ),
      stream: fc.boolean(),
    },
    { requiredKeys: [] },
  );
  const internal = { ...CALLER, internal: true };
  fc.assert(
    fc.property(fields, fc.boolean(), (given, isChat) => {
      const request = isChat ? chat(given).request : text(given).request;
      const body = JSON.parse(JSON.stringify(to('sluice', { ...request, cacheScope: 's' }))) as Record<
        string,
        unknown
      >;
      const read = isChat
        ? parseChatRequest(body, internal).request
        : parseTextRequest(body, internal).request;
      assert.deepEqual(read, {
        ...request,
        model: 'm',
        cacheScope: 's',
        // Set by the service for its engines.
        includeUsage: request.stream ? true : null,
        continuousUsage: request.stream,
      });
    }),
  );
});
