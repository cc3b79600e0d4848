import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ChatRequest, Dialect, TextRequest } from '../../src/generation.ts';
import { Raw, sayHello } from './replicas.ts';
import { chat, collect, MODEL, STAYS, text, textOf } from './requests.ts';

/** A server with 1024 tokens of context: its answer to a `max_tokens` and a prompt; null: it generates. */
type Refusal = (maxTokens: number | undefined, promptTokens: number) => object | null;

const CONTEXT = 1024;

/** The words of the servers' own sources. A prompt has as many tokens as its `words`. */
const REFUSALS: Record<string, Refusal> = {
  // Clamps prompt + `max_tokens`; seen on the real server.
  'vLLM 0.32': (maxTokens, prompt) => {
    if (maxTokens !== undefined && maxTokens > CONTEXT) {
      return bad(`max_tokens=${maxTokens} cannot be greater than max_model_len=1024. Please request fewer.`);
    }
    if (prompt === CONTEXT)
      return bad('max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)');
    return prompt < CONTEXT
      ? null
      : bad(
          "This model's maximum context length is 1024 tokens. However, your prompt contains at least 1025 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=1025)",
        );
  },
  'vLLM 0.9': (maxTokens = 1, prompt) =>
    maxTokens + prompt <= CONTEXT
      ? null
      : bad(
          `This model's maximum context length is 1024 tokens. However, you requested ${maxTokens + prompt} tokens (${prompt} in the messages, ${maxTokens} in the completion). Please reduce the length of the messages or completion.`,
        ),
  'vLLM 0.12': (maxTokens = 1, prompt) =>
    maxTokens + prompt <= CONTEXT
      ? null
      : bad(
          `'max_tokens' or 'max_completion_tokens' is too large: ${maxTokens}. This model's maximum context length is 1024 tokens and your request has ${prompt} input tokens (${maxTokens} > 1024 - ${prompt}).`,
        ),
  // It stops counting the prompt at the first token that is too many.
  'vLLM 0.18': (maxTokens = 0, prompt) => {
    if (maxTokens + prompt > CONTEXT) {
      return bad(
        `This model's maximum context length is 1024 tokens. However, you requested ${maxTokens} output tokens and your prompt contains at least ${CONTEXT - maxTokens + 1} input tokens, for a total of at least 1025 tokens.`,
      );
    }
    return prompt === CONTEXT ? bad('max_tokens must be at least 1, got 0.') : null;
  },
  SGLang: (maxTokens = 1, prompt) =>
    maxTokens + prompt < CONTEXT
      ? null
      : bad(
          `Requested token count exceeds the model's maximum context length of 1024 tokens. You requested a total of ${maxTokens + prompt} tokens: ${prompt} tokens from the input messages and ${maxTokens} tokens for the completion.`,
        ),
  TGI: (maxTokens = 1, prompt) =>
    maxTokens + prompt <= CONTEXT
      ? null
      : bad(
          `Input validation error: \`inputs\` tokens + \`max_new_tokens\` must be <= 1024. Given: ${prompt} \`inputs\` tokens and ${maxTokens} \`max_new_tokens\``,
        ),
  'llama-server': (_maxTokens, prompt) =>
    prompt < CONTEXT
      ? null
      : bad(`request (${prompt} tokens) exceeds the available context size (1024 tokens)`),
};

function bad(message: string): object {
  return { error: { message, type: 'BadRequestError', param: 'input_tokens', code: 400 } };
}

async function listen(server: string, dialect: Dialect): Promise<Raw> {
  const refusal = REFUSALS[server];
  assert(refusal);
  const replica = await Raw.listen(
    (response, request, body) => {
      if (request.method === 'GET') {
        const model = { id: MODEL, max_model_len: CONTEXT, meta: { n_ctx: CONTEXT } };
        return response.end(JSON.stringify({ data: [model], max_total_tokens: CONTEXT }));
      }
      const prompts =
        request.url === '/v1/chat/completions' ? [JSON.stringify(body['messages'])] : body['prompt'];
      const longest = Math.max(...[prompts].flat().map((prompt) => String(prompt).split('w').length - 1));
      const refused = refusal(body['max_tokens'] as number | undefined, longest);
      if (refused === null) return sayHello(response, request, body);
      return response.writeHead(400).end(JSON.stringify(refused));
    },
    { dialect },
  );
  await replica.engine.describe(STAYS);
  return replica;
}

const words = (count: number): string => 'w'.repeat(count);
const chatOf = (count: number, more: Partial<ChatRequest> = {}) =>
  chat({}, { messages: [{ role: 'user', content: words(count) }], ...more });
const textOfWords = (count: number, more: Partial<TextRequest> = {}) =>
  text({}, { prompts: [words(count)], ...more });

const OMITTED = undefined;

describe('the `max_tokens` that a replica gets', () => {
  for (const [server, dialect, make, sent] of [
    ['vLLM 0.32', 'vllm', chatOf, [1024]],
    ['vLLM 0.32', 'vllm', textOfWords, [1024]],
    ['vLLM 0.9', 'vllm', chatOf, [1024, 924]],
    ['vLLM 0.9', 'vllm', textOfWords, [1024, 924]],
    ['vLLM 0.12', 'vllm', chatOf, [1024, 924]],
    ['vLLM 0.12', 'vllm', textOfWords, [1024, 924]],
    ['vLLM 0.18', 'vllm', chatOf, [1024, OMITTED]],
    // Its refusal does not tell the prompt's tokens: as much as a prompt of these bytes leaves at least.
    ['vLLM 0.18', 'vllm', textOfWords, [1024, 923]],
    ['SGLang', 'sglang', chatOf, [OMITTED]],
    ['SGLang', 'sglang', textOfWords, [1024, 923]],
    ['TGI', 'tgi', chatOf, [OMITTED]],
    ['TGI', 'tgi', textOfWords, [OMITTED]],
    ['llama-server', 'llama-server', chatOf, [1024]],
    ['llama-server', 'llama-server', textOfWords, [1024]],
  ] as const) {
    it(`is what the context leaves where the caller gave none: ${server}, ${make(1).kind}`, async () => {
      await using replica = await listen(server, dialect);
      const events = await collect(replica.engine.generate(make(100), STAYS));
      assert.equal(textOf(events), 'hé 東京');
      assert.deepEqual(
        replica.bodies.map((body) => body['max_tokens']),
        sent,
      );
      assert(replica.bodies.every((body) => body['max_tokens'] !== null));
    });
  }

  for (const [server, dialect, sent] of [
    ['vLLM 0.32', 'vllm', [1000]],
    ['vLLM 0.9', 'vllm', [1000, 924]],
    ['vLLM 0.12', 'vllm', [1000, 924]],
    ['vLLM 0.18', 'vllm', [1000, OMITTED]],
    ['SGLang', 'sglang', [1000, 923]],
    ['TGI', 'tgi', [1000, 924]],
    ['llama-server', 'llama-server', [1000]],
  ] as const) {
    it(`is lowered to what the context leaves where the caller asked for more: ${server}`, async () => {
      await using replica = await listen(server, dialect);
      const events = await collect(replica.engine.generate(chatOf(100, { maxTokens: 1000 }), STAYS));
      assert.equal(textOf(events), 'hé 東京');
      assert.deepEqual(
        replica.bodies.map((body) => body['max_tokens']),
        sent,
      );
    });
  }

  it('is never more than the context', async () => {
    await using replica = await listen('vLLM 0.32', 'vllm');
    await collect(replica.engine.generate(chatOf(1, { maxTokens: 1_000_000 }), STAYS));
    assert.deepEqual([replica.bodies.length, replica.bodies[0]?.['max_tokens']], [1, 1024]);
  });

  it('is lowered for each longer prompt of several', async () => {
    await using replica = await listen('vLLM 0.9', 'vllm');
    const request = text({}, { prompts: [words(1), words(30), words(20)] });
    await collect(replica.engine.generate(request, STAYS));
    assert.deepEqual(
      replica.bodies.map((body) => body['max_tokens']),
      [1024, 994],
    );
  });
});

describe('a prompt that leaves no room', () => {
  for (const [server, dialect] of [
    ['vLLM 0.32', 'vllm'],
    ['vLLM 0.9', 'vllm'],
    ['vLLM 0.12', 'vllm'],
    ['vLLM 0.18', 'vllm'],
    ['SGLang', 'sglang'],
    ['TGI', 'tgi'],
    ['llama-server', 'llama-server'],
  ] as const) {
    it(`is context_length_exceeded, whether it fills the context exactly or is too long: ${server}`, async () => {
      await using replica = await listen(server, dialect);
      for (const count of [CONTEXT, CONTEXT + 1, 3 * CONTEXT]) {
        for (const maxTokens of [null, 5, 2000]) {
          await assert.rejects(
            collect(replica.engine.generate(chatOf(count, { maxTokens }), STAYS)),
            (error: Error & { code?: string; param?: string | null }) => {
              assert.equal(error.code, 'context_length_exceeded', error.message);
              // No field that the caller did not send.
              assert.doesNotMatch(error.message, /got 0|parameter=/);
              assert.equal(error.param, null);
              return true;
            },
          );
        }
      }
    });
  }
});
