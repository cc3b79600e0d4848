import assert from 'node:assert/strict';
import { JobChoice, type Job, type JobChoiceOptions } from '../../src/engine/llama/decode/job.ts';
import type { Vocabulary } from '../../src/engine/llama/prompt/vocabulary.ts';
import type { FinishReason, EngineEvent } from '../../src/core/generation.ts';

/** The output of a choice. */
export interface Output {
  text: string;
  reasoning: string;
  /** The name and the arguments of each call. */
  calls: string[];
  /** The last two events: the finish and the usage. */
  end: EngineEvent[];
}

/** Begins a choice whose job has token IDs. */
type Begin = () => { job: Job; choice: JobChoice };

/**
 * Interrupts a choice after each of these tokens and continues it in another one. Asserts that the output is the same as
 * without an interruption, and returns it.
 */
export async function assertReplayed(
  begin: Begin,
  tokens: readonly number[],
  vocabulary: Vocabulary,
): Promise<Output> {
  const unbroken = outputOf(await run(begin, [], tokens, vocabulary));
  for (let count = 0; count <= tokens.length; count++) {
    const sent = await run(begin, [], tokens.slice(0, count), vocabulary);
    const parts = sent.filter(({ type }) => !['started', 'finish', 'end'].includes(type));
    const rest = await run(begin, tokens.slice(0, count), tokens.slice(count), vocabulary);
    assert.deepEqual(outputOf([...parts, ...rest]), unbroken, `after ${count} tokens`);
  }
  return unbroken;
}

/** Replays and then accepts tokens, until the choice ends. Returns its events. */
async function run(
  begin: Begin,
  replayed: readonly number[],
  accepted: readonly number[],
  vocabulary: Vocabulary,
): Promise<EngineEvent[]> {
  const { job, choice } = begin();
  let reason: FinishReason | null = null;
  for (const token of replayed) reason ??= choice.replay(token, vocabulary);
  for (const token of accepted) reason ??= choice.accept(token, null, vocabulary);
  choice.dispose();
  job.events.close();
  const events: EngineEvent[] = [];
  for await (const event of job.events) events.push(event);
  return events;
}

function outputOf(events: readonly EngineEvent[]): Output {
  const output: Output = { text: '', reasoning: '', calls: [], end: events.slice(-2) };
  for (const event of events) {
    if (event.type === 'token') output.text += event.text;
    else if (event.type === 'reasoning') output.reasoning += event.text;
    else if (event.type === 'tool-call') output.calls[event.call] = event.name;
    else if (event.type === 'tool-arguments') output.calls[event.call] += event.text;
  }
  return output;
}

/** Creates the only choice of a job, for a chat of at most 200 tokens. */
export function chatChoice(
  job: Job,
  options: Pick<JobChoiceOptions, 'output' | 'constraint' | 'grammarField' | 'createSampler'> &
    Partial<JobChoiceOptions>,
): JobChoice {
  return new JobChoice({
    tokenize: () => [],
    closing: [],
    opensAnswer: [],
    reasoningBudget: Infinity,
    ...options,
    job,
    index: 0,
    prompt: new Uint32Array(1),
    first: true,
    limit: 200,
    echo: '',
  });
}
