import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ChatRequest, Dialect, TextRequest } from '../../src/core/generation.ts';
import { HttpReplica, respondHello } from '../replicas/replicas.ts';
import { chat, collect, MODEL, NEVER_ABORTED, text, textOf } from './requests.ts';

/** Returns the error of a server with 1024 tokens of context; null: the request is accepted. */
type Refusal = (maxTokens: number | undefined, promptTokens: number) => object | null;

const CONTEXT = 1024;

/** The messages are from the servers' sources. */
const REFUSALS: Record<string, Refusal> = {
  // Clamps prompt + `max_tokens`, as observed on the real server.
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
  // Counts the prompt only up to the first token beyond the limit.
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

async function listen(server: string, dialect: Dialect): Promise<HttpReplica> {
  const refusal = REFUSALS[server];
  assert(refusal);
  const replica = await HttpReplica.listen(
    (response, request, body) => {
      if (request.method === 'GET') {
        const model = { id: MODEL, max_model_len: CONTEXT, meta: { n_ctx: CONTEXT } };
        return response.end(JSON.stringify({ data: [model], max_total_tokens: CONTEXT }));
      }
      const prompts =
        request.url === '/v1/chat/completions' ? [JSON.stringify(body['messages'])] : body['prompt'];
      const longest = Math.max(...[prompts].flat().map((prompt) => String(prompt).split('w').length - 1));
      const refused = refusal(body['max_tokens'] as number | undefined, longest);
      if (refused === null) return respondHello(response, request, body);
      return response.writeHead(400).end(JSON.stringify(refused));
    },
    { dialect },
  );
  await replica.client.describe(NEVER_ABORTED);
  return replica;
}

const prompt = (count: number): string => 'w'.repeat(count);
const chatWith = (count: number, more: Partial<ChatRequest> = {}) =>
  chat({}, { messages: [{ role: 'user', content: prompt(count) }], ...more });
const textWith = (count: number, more: Partial<TextRequest> = {}) =>
  text({}, { prompts: [prompt(count)], ...more });

const OMITTED = undefined;

describe('the `max_tokens` sent to a replica', () => {
  for (const [server, dialect, create, sent] of [
    ['vLLM 0.32', 'vllm', chatWith, [1024]],
    ['vLLM 0.32', 'vllm', textWith, [1024]],
    ['vLLM 0.9', 'vllm', chatWith, [1024, 924]],
    ['vLLM 0.9', 'vllm', textWith, [1024, 924]],
    ['vLLM 0.12', 'vllm', chatWith, [1024, 924]],
    ['vLLM 0.12', 'vllm', textWith, [1024, 924]],
    ['vLLM 0.18', 'vllm', chatWith, [1024, OMITTED]],
    // Its error does not report the number of prompt tokens, so the number of bytes is the upper bound.
    ['vLLM 0.18', 'vllm', textWith, [1024, 923]],
    ['SGLang', 'sglang', chatWith, [OMITTED]],
    ['SGLang', 'sglang', textWith, [1024, 923]],
    ['TGI', 'tgi', chatWith, [OMITTED]],
    ['TGI', 'tgi', textWith, [OMITTED]],
    ['llama-server', 'llama-server', chatWith, [1024]],
    ['llama-server', 'llama-server', textWith, [1024]],
  ] as const) {
    it(`lets a completion use the rest of the context by default: ${server}, ${create(1).kind}`, async () => {
      await using replica = await listen(server, dialect);
      const events = await collect(replica.client.generate(create(100), NEVER_ABORTED));
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
    it(`does not cause a refusal if it exceeds the rest of the context: ${server}`, async () => {
      await using replica = await listen(server, dialect);
      const events = await collect(
        replica.client.generate(chatWith(100, { maxTokens: 1000 }), NEVER_ABORTED),
      );
      assert.equal(textOf(events), 'hé 東京');
      assert.deepEqual(
        replica.bodies.map((body) => body['max_tokens']),
        sent,
      );
    });
  }

  it('is at most the context length', async () => {
    await using replica = await listen('vLLM 0.32', 'vllm');
    await collect(replica.client.generate(chatWith(1, { maxTokens: 1_000_000 }), NEVER_ABORTED));
    assert.deepEqual([replica.bodies.length, replica.bodies[0]?.['max_tokens']], [1, 1024]);
  });

  it('is reduced to fit the longest of several prompts', async () => {
    await using replica = await listen('vLLM 0.9', 'vllm');
    const request = text({}, { prompts: [prompt(1), prompt(30), prompt(20)] });
    await collect(replica.client.generate(request, NEVER_ABORTED));
    assert.deepEqual(
      replica.bodies.map((body) => body['max_tokens']),
      [1024, 994],
    );
  });
});

describe('a prompt that leaves no room for a completion', () => {
  for (const [server, dialect] of [
    ['vLLM 0.32', 'vllm'],
    ['vLLM 0.9', 'vllm'],
    ['vLLM 0.12', 'vllm'],
    ['vLLM 0.18', 'vllm'],
    ['SGLang', 'sglang'],
    ['TGI', 'tgi'],
    ['llama-server', 'llama-server'],
  ] as const) {
    it(`is context_length_exceeded if it fills or exceeds the context: ${server}`, async () => {
      await using replica = await listen(server, dialect);
      for (const count of [CONTEXT, CONTEXT + 1, 3 * CONTEXT]) {
        for (const maxTokens of [null, 5, 2000]) {
          await assert.rejects(
            collect(replica.client.generate(chatWith(count, { maxTokens }), NEVER_ABORTED)),
            (error: Error & { code?: string; param?: string | null }) => {
              assert.equal(error.code, 'context_length_exceeded', error.message);
              // The caller did not send these fields.
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
