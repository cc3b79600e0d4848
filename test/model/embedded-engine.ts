import assert from 'node:assert/strict';
import { copyFile, open } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import { LlamaEngine } from '../../src/engine/llama/engine.ts';
import type { LlamaOptions } from '../../src/engine/llama/load-model.ts';
import { ServiceError } from '../../src/core/errors.ts';
import type {
  ChatRequest,
  FinishReason,
  GenerationRequest,
  TextRequest,
  TokenLogprob,
  Usage,
  EngineEvent,
} from '../../src/core/generation.ts';
import type { Sampling } from '../../src/core/sampling.ts';
import { SILENT } from '../../src/support/log.ts';
import { readGguf } from '../../src/models/gguf.ts';
import { NO_END } from '../support/default-model.ts';
import { GREEDY, NO_TOOLS, STREAMED } from '../generation-requests.ts';

export const file = process.env.SLUICE_TEST_MODEL;

/** Options of `describe` that skip tests without a model. */
export const SKIP = { skip: file === undefined && 'SLUICE_TEST_MODEL is not set' };

/** The models of tests that concern different vocabularies and templates. `options` are for `describe`. */
export const MODELS = [
  { name: 'the default model', variable: 'SLUICE_TEST_MODEL' },
  { name: 'Gemma 3', variable: 'SLUICE_TEST_GEMMA' },
].map(({ name, variable }) => {
  const path = process.env[variable];
  return { name, file: path ?? '', options: { skip: path === undefined && `${variable} is not set` } };
});

export const SLOTS = 4;
export const SLOT_TOKENS = 256;

/** Greedy, with completions that always reach `max_tokens`. */
export const ENDLESS: Sampling = {
  ...GREEDY,
  logitBias: new Map(Object.entries(NO_END).map(([token, bias]) => [Number(token), bias])),
};

/** At this temperature, all tokens have about the same probability. */
export const FLAT: Sampling = { ...ENDLESS, temperature: 20 };

/** Always generates this token. */
export function always(token: number): Sampling {
  return { ...GREEDY, logitBias: new Map([[token, 100]]) };
}

/** Returns a schema that only `JSON.stringify(value)` satisfies, in any tokenization. */
export function exactly(value: string): ChatRequest['responseFormat'] {
  return { type: 'json_schema', name: 'exactly', schema: { const: value }, strict: true };
}

const BASE = { ...STREAMED, model: 'test/model', maxTokens: 12, sampling: GREEDY };

export function chat(content: string, changed: Partial<ChatRequest> = {}): ChatRequest {
  return { ...BASE, ...NO_TOOLS, kind: 'chat', messages: [{ role: 'user', content }], ...changed };
}

export function text(prompt: string, changed: Partial<TextRequest> = {}): TextRequest {
  return { ...BASE, kind: 'text', prompts: [prompt], echo: false, ...changed };
}

export interface Completion {
  texts: string[];
  reasons: (FinishReason | undefined)[];
  stopSequences: (string | null)[];
  logprobs: TokenLogprob[];
  usage: Usage;
  events: EngineEvent[];
}

function usageOf(events: readonly EngineEvent[]): Usage {
  const end = events.at(-1);
  assert(end?.type === 'end' && end.usageSource === 'engine');
  return end.usage;
}

/** Waits until the condition holds. Checking in every turn of the event loop would take as much CPU as the engine. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await setTimeout(1);
}

/**
 * Loads a model, by default the default model, with one thread, because several would wait for each other on a busy
 * machine.
 */
export async function loadEngine(options: Partial<LlamaOptions> = {}): Promise<LlamaEngine> {
  const defaults = { file: file ?? '', slots: SLOTS, contextTokens: SLOT_TOKENS, threads: 1 };
  return await LlamaEngine.load(
    { ...defaults, gpuLayers: 'auto', ...options },
    { onProgress() {}, log: SILENT },
  );
}

/** Generates a completion and checks the order of events. */
export async function complete(
  engine: LlamaEngine,
  request: GenerationRequest,
  signal = new AbortController().signal,
): Promise<Completion> {
  const events: EngineEvent[] = [];
  for await (const event of await engine.generate(request, signal)) events.push(event);
  const usage = usageOf(events);
  const result: Completion = { texts: [], reasons: [], stopSequences: [], logprobs: [], usage, events };
  assert.equal(events[0]?.type, 'started');
  for (const event of events) {
    if (event.type === 'token') {
      assert.equal(result.reasons[event.choice], undefined, 'no token follows a finish');
      result.texts[event.choice] = (result.texts[event.choice] ?? '') + event.text;
      result.logprobs.push(...(event.logprobs ?? []));
    }
    if (event.type === 'finish') {
      result.reasons[event.choice] = event.reason;
      result.stopSequences[event.choice] = event.stopSequence;
    }
  }
  return result;
}

/** Asserts that the request is refused with this error. Returns it. */
export async function assertRefused(
  engine: LlamaEngine,
  request: GenerationRequest,
  code: string,
  param: string,
): Promise<ServiceError> {
  const error = await complete(engine, request).then(
    () => assert.fail('the request was not refused'),
    (reason: unknown) => reason,
  );
  assert(error instanceof ServiceError);
  assert.equal(error.code, code);
  assert.equal(error.param, param);
  return error;
}

/** Copies the file of the default model to `path`, with another chat template, which must be shorter. */
export async function copyModel(path: string, template: string): Promise<void> {
  const { chatTemplate } = await readGguf(file ?? '');
  assert.ok(chatTemplate !== null);
  await copyFile(file ?? '', path);
  await using handle = await open(path, 'r+');
  const head = Buffer.alloc(8 * 1024 * 1024);
  await handle.read(head, 0, head.length, 0);
  const original = Buffer.from(chatTemplate);
  const position = head.indexOf(original);
  // A comment keeps the length of the template, so the rest of the file does not move.
  const padding = original.length - Buffer.byteLength(template) - '{##}'.length;
  assert.ok(position > 0 && padding >= 0);
  await handle.write(Buffer.from(`${template}{#${' '.repeat(padding)}#}`), 0, original.length, position);
}
