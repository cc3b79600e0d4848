import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import type { ReplicaEvent } from '../../src/replicas/replica.ts';
import { NO_USAGE, type Continuation, type GenerationRequest } from '../../src/core/generation.ts';
import { HttpReplica } from './replicas.ts';
import { chat, collect, NEVER_ABORTED, text, textOf } from '../engine/requests.ts';

/** Responses of vLLM 0.32, with the relevant fields only. */

const PROMPT = [11, 12, 13];

/** The tokens of a response, each with the text that it completes. The tokens 23 to 25 form ` 🙂`. */
const TOKENS: readonly [id: number, text: string][] = [
  [21, 'The'],
  [22, ' sky'],
  [23, ''],
  [24, ''],
  [25, ' 🙂'],
  [26, ' is'],
  [27, ' blue'],
];

/** The number of tokens in each chunk. */
const ONE_BY_ONE = TOKENS.map(() => 1);

function respond(
  response: ServerResponse,
  body: Record<string, unknown>,
  path: string | undefined,
  chunks: readonly number[] = ONE_BY_ONE,
): void {
  const isChat = path === '/v1/chat/completions';
  const prompt = isChat ? PROMPT : (body['prompt'] as number[]);
  const skipped = isChat ? 0 : prompt.length - PROMPT.length;
  const withIds = body['return_token_ids'] === true;
  const send = (choice: object, completion: number, top: object = {}): void => {
    const usage = { prompt_tokens: prompt.length, completion_tokens: completion, total_tokens: 0 };
    const data = { id: 'c', ...top, choices: [{ index: 0, finish_reason: null, ...choice }], usage };
    response.write(`data: ${JSON.stringify(data)}\n\n`);
  };
  const ids = withIds ? { prompt_token_ids: prompt } : {};
  if (isChat) send({ delta: { role: 'assistant', content: '' } }, 0, ids);
  let at = skipped;
  for (const count of isChat ? chunks : [1, 1, 1, 1, 1, 1, 1]) {
    const tokens = TOKENS.slice(at, at + count);
    if (tokens.length === 0) break;
    const value = tokens.map(([, piece]) => piece).join('');
    send(
      {
        ...(isChat ? { delta: { content: value } } : { text: value, ...(at === skipped ? ids : {}) }),
        ...(withIds ? { token_ids: tokens.map(([id]) => id) } : {}),
      },
      at + tokens.length - skipped,
    );
    at += count;
  }
  send({ ...(isChat ? { delta: {} } : { text: '' }), finish_reason: 'stop' }, TOKENS.length - skipped);
  response.end('data: [DONE]\n\n');
}

/** Returns the continuation and the text of a generation that was interrupted after these events. */
function received(events: readonly ReplicaEvent[]): Continuation {
  const tokenIds: number[] = [];
  let promptTokenIds: readonly number[] | null = null;
  const usage = { ...NO_USAGE };
  for (const event of events) {
    if (event.type === 'started') {
      usage.promptTokens = event.promptTokens ?? 0;
      promptTokenIds = event.promptTokenIds ?? null;
    } else if (event.type === 'token') {
      usage.completionTokens = event.completionTokens;
      tokenIds.push(...(event.tokenIds ?? []));
    }
  }
  return { promptTokenIds, tokenIds, usage, text: textOf(events) };
}

const listen = (chunks?: readonly number[]) =>
  HttpReplica.listen((response, { url }, body) => respond(response, body, url, chunks), {
    dialect: 'vllm',
    contextTokens: 100,
  });

const generate = (replica: HttpReplica, request: GenerationRequest) =>
  collect(replica.client.generate(request, NEVER_ABORTED));

for (const kind of ['chat', 'text'] as const) {
  const request: GenerationRequest =
    kind === 'chat' ? chat({}, { tokenIds: true, maxTokens: 9 }) : text({}, { tokenIds: true, maxTokens: 9 });

  test(`a ${kind} can be continued after each event, from its token IDs`, async () => {
    await using replica = await listen();
    // A chat for both kinds: this server returns the same token IDs, but cannot tokenize the prompt of a text completion.
    const unbroken = await generate(replica, chat({}, { tokenIds: true }));
    const cuts = unbroken.flatMap(({ type }, index) => (type === 'token' ? [index + 1] : []));
    assert.equal(cuts.length, 5);
    for (const cut of cuts) {
      const continuation = received(unbroken.slice(0, cut));
      assert.equal(continuation.tokenIds.length, continuation.usage.completionTokens);
      const rest = await generate(replica, { ...request, continuation });
      assert.equal(continuation.text + textOf(rest), 'The sky 🙂 is blue');
      assert.deepEqual(rest.at(-1), unbroken.at(-1), 'the usage covers the whole generation');
      assert.deepEqual(rest.at(-2), { type: 'finish', choice: 0, reason: 'stop', stopSequence: null });
      assert.equal(replica.paths.at(-1), '/v1/completions');
      const { prompt, max_tokens: maxTokens, messages } = replica.bodies.at(-1) ?? {};
      assert.deepEqual(prompt, [...PROMPT, ...continuation.tokenIds]);
      assert.equal(maxTokens, 9 - continuation.tokenIds.length);
      assert.equal(messages, undefined);
    }
  });
}

test('without max_tokens, a continued generation may use the rest of the context', async () => {
  await using replica = await listen();
  const continuation = { promptTokenIds: PROMPT, tokenIds: [21, 22], text: '', usage: NO_USAGE };
  await generate(replica, chat({}, { continuation }));
  assert.equal(replica.bodies.at(-1)?.['max_tokens'], 95);
});

test('the event of a chunk with several tokens has no IDs, because the chunk may end inside a character', async () => {
  await using replica = await listen([1, 2, 2, 1, 1]);
  const events = await generate(replica, chat({}, { tokenIds: true }));
  const parts = events.filter((event) => event.type === 'token');
  assert.deepEqual(
    parts.map((part) => [part.text, part.tokenIds]),
    [
      ['The', [21]],
      [' sky', undefined],
      [' 🙂', undefined],
      [' is', [22, 23, 24, 25, 26]],
      [' blue', [27]],
    ],
  );
});

test('token IDs are not requested if the generation cannot be continued', async () => {
  await using replica = await listen();
  const events = await generate(replica, chat());
  assert.equal(replica.bodies.at(-1)?.['return_token_ids'], undefined);
  assert.ok(events.every((event) => !('tokenIds' in event) && !('promptTokenIds' in event)));
});
