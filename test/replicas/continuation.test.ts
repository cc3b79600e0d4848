import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { asTextRequest, canContinue, canContinueAt } from '../../src/replicas/continuation.ts';
import type { ReplicaClient } from '../../src/replicas/replica.ts';
import {
  DIALECTS,
  NO_USAGE,
  type Continuation,
  type Dialect,
  type GenerationEvent,
  type GenerationRequest,
  type Message,
} from '../../src/core/generation.ts';
import { GREEDY } from '../generation-requests.ts';
import { openScripted } from './replicas.ts';
import { chat, collect, NEVER_ABORTED, text } from '../engine/requests.ts';

const TOOL = { name: 'f', description: null, parameters: { type: 'object' }, strict: false };

describe('the continuation of a request', () => {
  const dialects = (request: GenerationRequest): Dialect[] =>
    DIALECTS.filter((dialect) => canContinue(request, dialect));

  test('is possible with one choice, no log probabilities and no echo', () => {
    const continuing: Dialect[] = ['sluice', 'vllm', 'sglang', 'llama-server'];
    assert.deepEqual(dialects(chat()), continuing);
    assert.deepEqual(dialects(text()), continuing);
    assert.deepEqual(dialects(chat({}, { choices: 2 })), []);
    assert.deepEqual(dialects(chat({}, { logprobs: 0 })), []);
    assert.deepEqual(dialects(text({}, { prompts: ['a', 'b'] })), []);
    assert.deepEqual(dialects(text({}, { echo: true })), []);
  });

  test('with stop sequences, a format, tools or penalties needs an engine that restores its state', () => {
    const stateful: Dialect[] = ['sluice'];
    assert.deepEqual(dialects(chat({}, { stop: ['x'] })), stateful);
    assert.deepEqual(dialects(chat({}, { responseFormat: { type: 'json_object' } })), stateful);
    assert.deepEqual(dialects(chat({}, { tools: [TOOL] })), stateful);
    assert.deepEqual(dialects(chat({}, { sampling: { ...GREEDY, presencePenalty: 1 } })), stateful);
    assert.deepEqual(dialects(chat({}, { sampling: { ...GREEDY, frequencyPenalty: 1 } })), stateful);
  });

  test('needs token IDs if there is a repetition penalty or an assistant message at the end', () => {
    const fromTokenIds: Dialect[] = ['sluice', 'vllm'];
    assert.deepEqual(dialects(chat({}, { sampling: { ...GREEDY, repetitionPenalty: 1.1 } })), fromTokenIds);
    const { messages } = chat();
    const answer: Message = { role: 'assistant', content: 'a', reasoning: null, toolCalls: [] };
    assert.deepEqual(dialects(chat({}, { messages: [...messages, answer] })), fromTokenIds);
  });

  test('is refused if the prompt ends with the start of reasoning, which is found in any prompt', () => {
    for (const end of ['<think>\n', '[THINK]', '<|channel|><seed:think> ']) {
      assert.throws(() => asTextRequest(chat(), `Hi ${end}`), { code: 'unsupported_parameter' });
    }
    // With a time that grows with the square of the length, the first of these would take minutes.
    for (const prompt of [`<${'think'.repeat(200_000)}`, '<think></think>', 'I think', '<think> so']) {
      assert.deepEqual(asTextRequest(chat(), prompt).prompts, [prompt]);
    }
  });

  test('inside reasoning needs an engine that restores its state, and is impossible after a call', () => {
    const positions = (dialect: Dialect) =>
      (['text', 'reasoning', 'text after reasoning', 'call'] as const).filter((position) =>
        canContinueAt(position, dialect),
      );
    assert.deepEqual(positions('sluice'), ['text', 'reasoning', 'text after reasoning']);
    assert.deepEqual(positions('vllm'), ['text', 'text after reasoning']);
    assert.deepEqual(positions('llama-server'), ['text']);
  });
});

/** The content, usage and finish reason of a generation. */
interface Output {
  text: string;
  reasoning: string;
  arguments: string;
  usage: unknown;
  reason: unknown;
}

function outputOf(events: readonly GenerationEvent[]): Output {
  const output: Output = { text: '', reasoning: '', arguments: '', usage: null, reason: null };
  for (const event of events) {
    if (event.type === 'token') output.text += event.text;
    else if (event.type === 'reasoning') output.reasoning += event.text;
    else if (event.type === 'tool-arguments') output.arguments += event.text;
    else if (event.type === 'finish') output.reason = event.reason;
    else if (event.type === 'end') output.usage = event.usage;
  }
  return output;
}

const isOutput = ({ type }: GenerationEvent): boolean => type === 'token' || type === 'reasoning';

async function generate(client: ReplicaClient, request: GenerationRequest): Promise<GenerationEvent[]> {
  const events = await collect(client.generate(request, NEVER_ABORTED));
  return events.filter((event) => event.type !== 'sent' && event.type !== 'prefill');
}

/** Continues the request after each event of its text and reasoning, and compares the output with the unbroken one. */
async function assertContinued(client: ReplicaClient, request: GenerationRequest): Promise<void> {
  const unbroken = await generate(client, { ...request, tokenIds: true });
  const cuts = unbroken.flatMap((event, index) => (isOutput(event) ? [index + 1] : []));
  assert.ok(cuts.length > 2);
  for (const cut of cuts) {
    const before = unbroken.slice(0, cut);
    const tokenIds = before.flatMap((event) => ('tokenIds' in event ? (event.tokenIds ?? []) : []));
    const continuation: Continuation = { promptTokenIds: null, tokenIds, text: '', usage: NO_USAGE };
    const rest = await generate(client, { ...request, tokenIds: true, continuation });
    assert.deepEqual(
      outputOf([...before, ...rest.filter(({ type }) => type !== 'started')]),
      outputOf(unbroken),
    );
    assert.deepEqual(rest[0], unbroken[0], 'the prompt is the same');
  }
}

describe('the scripted engine', () => {
  test('continues text and reasoning after any token', async () => {
    await using client = await openScripted();
    await assertContinued(client, chat({ tokens: 8 }));
    await assertContinued(client, text({ tokens: 8 }, { maxTokens: 6 }));
    await assertContinued(client, chat({ reasoning: 'a b c', text: 'one two three' }));
    const call = { name: 'f', arguments: { city: 'Berlin' } };
    await assertContinued(client, chat({ text: 'one two three', calls: [call] }, { tools: [TOOL] }));
  });

  test('refuses tokens that it would not generate', async () => {
    await using client = await openScripted();
    const continuation: Continuation = { promptTokenIds: null, tokenIds: [1], text: '', usage: NO_USAGE };
    await assert.rejects(generate(client, chat({}, { continuation })), {
      code: 'invalid_value',
      param: 'continuation.tokenIds[0]',
    });
  });
});
