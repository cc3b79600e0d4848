import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { describe, it } from 'node:test';
import { AccessDenied, ReplicaRefused } from '../../src/replicas/replica.ts';
import { SILENT, type Log } from '../../src/support/log.ts';
import { HttpReplica, isUnavailable, respondHello } from './replicas.ts';
import { chat, collect, MODEL, NEVER_ABORTED, text, textOf } from '../engine/requests.ts';

const OPENAI = { dialect: 'openai' } as const;

/** Returns the description of a provider that responds to `GET /v1/models` with `body`. */
async function describeWith(body: unknown, status = 200, contextTokens?: number) {
  const warnings: string[] = [];
  const log: Log = { ...SILENT, warn: (message) => void warnings.push(message) };
  await using replica = await HttpReplica.listen(
    (response) => response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body)),
    { ...OPENAI, log, sharedPrefixCache: true, contextTokens },
  );
  await replica.client.health(NEVER_ABORTED);
  const { contextTokens: context, maxCompletionTokens } = await replica.client.describe(NEVER_ABORTED);
  return { context, maxCompletionTokens, warnings };
}

const WARNING = 'the server does not report the context length of the model; set models[].contextTokens';

describe('the model of a provider', () => {
  it('is found in the list of models, with the context length in any of the fields that providers use', async () => {
    for (const [element, context, maxCompletionTokens] of [
      [{ context_length: 2048, top_provider: { max_completion_tokens: 512 } }, 2048, 512],
      [{ context_window: 2048, max_completion_tokens: 512 }, 2048, 512],
      [{ max_context_length: 2048 }, 2048, null],
      [{ max_model_len: 2048 }, 2048, null],
      [{ context_length: 0, max_model_len: 2048 }, 2048, null],
    ] as const) {
      const data = [
        { id: 'another', context_length: 1 },
        { id: MODEL, ...element },
      ];
      const expected = { context, maxCompletionTokens, warnings: [] };
      assert.deepEqual(await describeWith({ object: 'list', data }), expected);
      assert.deepEqual(await describeWith(data), expected);
    }
  });

  it('needs contextTokens if the list has no context length, no such model, or does not exist', async () => {
    const data = [{ id: 'another', context_length: 1 }];
    for (const [body, status] of [
      [{ data }, 200],
      [{ data: [{ id: MODEL }] }, 200],
      ['<html>', 404],
      ['{}', 403],
      ['{}', 405],
    ] as const) {
      const unknown = { context: null, maxCompletionTokens: null };
      assert.deepEqual(await describeWith(body, status), { ...unknown, warnings: [WARNING] });
      assert.deepEqual(await describeWith(body, status, 2048), { ...unknown, warnings: [] });
    }
  });

  it('may be in a list of several megabytes', async () => {
    const data = [
      { id: 'another', description: 'x'.repeat(5_000_000) },
      { id: MODEL, context_length: 2048 },
    ];
    assert.equal((await describeWith({ data })).context, 2048);
  });

  it('is unhealthy if the key is refused, or the server fails or redirects', async () => {
    for (const status of [401, 500, 502, 503, 301, 307]) {
      await assert.rejects(describeWith('{}', status), (error) => {
        assert.ok(error instanceof ReplicaRefused && error.cause instanceof Error);
        assert.match(error.cause.message, new RegExp(`${status}$`));
        return true;
      });
    }
  });
});

/** Refuses requests with this field, in the words of OpenAI or Mistral. */
function refusing(field: 'max_tokens' | 'stream_options', refusal: object, status: number) {
  return HttpReplica.listen((response, request, body) => {
    if (field in body) return response.writeHead(status).end(JSON.stringify(refusal));
    return respondHello(response, request, body);
  }, OPENAI);
}

const NO_MAX_TOKENS = {
  error: {
    message:
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    type: 'invalid_request_error',
    param: 'max_tokens',
    code: 'unsupported_parameter',
  },
};
const extra = (...loc: string[]) => ({
  message: {
    detail: [{ type: 'extra_forbidden', loc: ['body', ...loc], msg: 'Extra inputs are not permitted' }],
  },
});

describe('a field that a provider refuses by its name', () => {
  it('is renamed from max_tokens to max_completion_tokens, once for all requests', async () => {
    await using replica = await refusing('max_tokens', NO_MAX_TOKENS, 400);
    for (const stream of [true, false, true]) {
      const events = await collect(
        replica.client.generate(chat({}, { maxTokens: 5, stream }), NEVER_ABORTED),
      );
      assert.equal(textOf(events), 'hé 東京');
      assert.equal(events.filter(({ type }) => type === 'sent').length, 1);
    }
    assert.deepEqual(
      replica.bodies.map((body) => [body['max_tokens'], body['max_completion_tokens']]),
      [
        [5, undefined],
        [undefined, 5],
        [undefined, 5],
        [undefined, 5],
      ],
    );
  });

  it('is left out if it is stream_options, and the usage is read without it', async () => {
    await using replica = await refusing('stream_options', extra('stream_options', 'include_usage'), 422);
    for (let turn = 0; turn < 2; turn++) {
      const end = (await collect(replica.client.generate(chat(), NEVER_ABORTED))).at(-1);
      assert.ok(end?.type === 'end');
      assert.deepEqual([end.usageSource, end.usage.completionTokens], ['engine', 2]);
    }
    assert.deepEqual(
      replica.bodies.map((body) => 'stream_options' in body),
      [true, false, false],
    );
  });

  it('causes an error of the caller if it cannot be adapted, or is refused again', async () => {
    for (const refusal of [extra('frequency_penalty'), NO_MAX_TOKENS]) {
      await using replica = await HttpReplica.listen(
        (response) => response.writeHead(400).end(JSON.stringify(refusal)),
        OPENAI,
      );
      await assert.rejects(collect(replica.client.generate(chat({}, { maxTokens: 5 }), NEVER_ABORTED)), {
        status: 400,
      });
      assert.ok(replica.bodies.length <= 2);
    }
  });

  it('is left out for vLLM if it is the budget of the reasoning, also if the refusal is streamed', async () => {
    const message = 'thinking_token_budget is set but reasoning_config is not configured.';
    const refusal = JSON.stringify({ error: { message, type: 'BadRequestError', param: null, code: 400 } });
    for (const isStreamed of [true, false]) {
      const bodies: Record<string, unknown>[] = [];
      await using replica = await HttpReplica.listen(
        (response, request, body) => {
          const sent = body;
          bodies.push(sent);
          if (!('thinking_token_budget' in sent)) return respondHello(response, request, body);
          if (isStreamed)
            response
              .writeHead(200, { 'content-type': 'text/event-stream' })
              .end(`data: ${refusal}\n\ndata: [DONE]\n\n`);
          else response.writeHead(400).end(refusal);
        },
        { dialect: 'vllm' },
      );
      for (let turn = 0; turn < 2; turn++) {
        const request = chat({}, { maxTokens: 20, reasoningBudget: 5 });
        const events = await collect(replica.client.generate(request, NEVER_ABORTED));
        assert.equal(textOf(events), 'hé 東京');
        assert.deepEqual([events[0]?.type, events.at(-1)?.type], ['sent', 'end']);
      }
      assert.deepEqual(
        bodies.map((body) => body['thinking_token_budget']),
        [5, undefined, undefined],
      );
    }
  });

  it('is not adapted for servers of a known kind', async () => {
    await using replica = await HttpReplica.listen(
      (response) => response.writeHead(400).end(JSON.stringify(NO_MAX_TOKENS)),
      { dialect: 'vllm' },
    );
    await assert.rejects(collect(replica.client.generate(chat({}, { maxTokens: 5 }), NEVER_ABORTED)));
    assert.equal(replica.bodies.length, 1);
  });
});

describe('the tokens of a provider', () => {
  it('are bounded by the configured context, which is also the default for text completions', async () => {
    await using replica = await HttpReplica.listen(
      (response, request, body) => {
        if (body['max_tokens'] !== 2048) return respondHello(response, request, body);
        const message =
          "This model's maximum context length is 2048 tokens, however you requested 2148 tokens (100 in your prompt; 2048 for the completion). Please reduce your prompt; or completion length.";
        return response.writeHead(400).end(JSON.stringify({ error: { message } }));
      },
      { ...OPENAI, contextTokens: 2048 },
    );
    await collect(replica.client.generate(text(), NEVER_ABORTED));
    await collect(replica.client.generate(chat(), NEVER_ABORTED));
    await collect(replica.client.generate(chat({}, { maxTokens: 9000 }), NEVER_ABORTED));
    assert.deepEqual(
      replica.bodies.map((body) => body['max_tokens']),
      [2048, 1948, undefined, 2048, 1948],
    );
  });
});

const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }], ...more })}\n\n`;

/** Collects the events of a stream of this text, after `sent`. */
async function streamOf(wire: string) {
  await using replica = await HttpReplica.listen((response) => response.end(wire), OPENAI);
  return (await collect(replica.client.generate(chat(), NEVER_ABORTED))).slice(1);
}

describe('a stream of a provider', () => {
  it('may have comments, chunks without choices, and no usage', async () => {
    const events = await streamOf(
      ': OPENROUTER PROCESSING\n\n' +
        'data: {"choices":[],"prompt_filter_results":[]}\n\n' +
        ': OPENROUTER PROCESSING\n\n' +
        chunk({ role: 'assistant', content: 'a' }) +
        chunk({}, 'stop') +
        'data: [DONE]\n\n',
    );
    assert.deepEqual(
      events.map(({ type }) => type),
      ['started', 'token', 'finish', 'end'],
    );
    const end = events.at(-1);
    assert.ok(end?.type === 'end' && end.usageSource === 'estimated');
  });

  it('has the finish reasons of other APIs', async () => {
    for (const [reason, expected] of [
      ['stop', 'stop'],
      ['STOP', 'stop'],
      ['end_turn', 'stop'],
      ['unheard_of', 'stop'],
      ['tool_calls', 'stop'], // The response has no calls.
      ['length', 'length'],
      ['max_tokens', 'length'],
      ['MAX_TOKENS', 'length'],
      ['model_length', 'length'],
      ['model_context_window_exceeded', 'length'],
      ['content_filter', 'content_filter'],
      ['refusal', 'content_filter'],
      ['sensitive', 'content_filter'],
      ['SAFETY', 'content_filter'],
      ['PROHIBITED_CONTENT', 'content_filter'],
    ] as const) {
      const events = await streamOf(chunk({ content: 'a' }) + chunk({}, reason));
      assert.deepEqual(
        events.at(-2),
        { type: 'finish', choice: 0, reason: expected, stopSequence: null },
        reason,
      );
    }
    const call = { index: 0, id: 'call_1', function: { name: 'f', arguments: '{}' } };
    for (const reason of ['tool_calls', 'function_call', 'tool_use', 'stop', 'unheard_of']) {
      const events = await streamOf(chunk({ tool_calls: [call] }) + chunk({}, reason));
      assert.deepEqual(
        events.at(-2),
        { type: 'finish', choice: 0, reason: 'tool_calls', stopSequence: null },
        reason,
      );
    }
    for (const reason of ['insufficient_system_resource', 'network_error', 'abort']) {
      await assert.rejects(streamOf(chunk({ content: 'a' }) + chunk({}, reason)), isUnavailable);
    }
  });

  it('has the text of a refusal', async () => {
    const events = await streamOf(chunk({ role: 'assistant', refusal: 'No.' }) + chunk({}, 'stop'));
    assert.equal(textOf(events), 'No.');
  });

  it('may have its reasoning and text in parts of the content', async () => {
    const thinking = { type: 'thinking', thinking: [{ type: 'text', text: 'Hm' }, { type: 'other' }] };
    const events = await streamOf(
      chunk({ role: 'assistant', content: '' }) +
        chunk({ content: [thinking] }) +
        chunk({ content: [{ type: 'text', text: 'Yes' }, { type: 'reference' }, null] }) +
        chunk({ content: '.' }, 'stop'),
    );
    assert.deepEqual(
      events.flatMap((event) => ('text' in event ? [[event.type, event.text]] : [])),
      [
        ['reasoning', 'Hm'],
        ['token', 'Yes'],
        ['token', '.'],
      ],
    );
  });

  it('may end with an error of the provider', async () => {
    const error = { error: { code: 502, message: 'Provider disconnected' } };
    const wire = chunk({ content: 'a' }) + chunk({ content: '' }, 'error', error);
    await assert.rejects(streamOf(wire), isUnavailable);
  });
});

describe('a provider that denies access', () => {
  const respond = (status: number, code: string) => (response: ServerResponse) =>
    response.writeHead(status).end(JSON.stringify({ error: { message: 'sk-secret', code } }));

  for (const [status, code] of [
    [401, 'invalid_api_key'],
    [402, 'payment_required'],
    [403, 'forbidden'],
    [429, 'insufficient_quota'],
  ] as const) {
    it(`with ${status} causes AccessDenied, and not an error of the caller`, async () => {
      await using replica = await HttpReplica.listen(respond(status, code), OPENAI);
      for (const stream of [true, false]) {
        const events = collect(replica.client.generate(chat({}, { stream }), NEVER_ABORTED));
        await assert.rejects(events, (error) => {
          assert.ok(error instanceof AccessDenied);
          assert.deepEqual([error.status, error.code], [503, 'engine_unavailable']);
          assert.doesNotMatch(`${error.message} ${String(error.cause)}`, /secret/);
          return true;
        });
      }
    });
  }

  it('with a rate limit gets requests again after its retry-after', async () => {
    await using replica = await HttpReplica.listen(
      (response) => response.writeHead(429, { 'retry-after': '3' }).end('{"error":{"message":"slow down"}}'),
      OPENAI,
    );
    await assert.rejects(collect(replica.client.generate(chat(), NEVER_ABORTED)), (error) => {
      assert.ok(error instanceof ReplicaRefused && error.rateLimited);
      assert.equal(error.retryAfterMs, 3000);
      return true;
    });
  });
});
