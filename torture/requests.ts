import { scripted, type Directive } from '../test/support/scripted-engine/directive.ts';
import type { CallerKey, DisconnectPoint, TortureRequest } from './records.ts';
import { FALSE_USAGE_MODEL } from './configuration.ts';
import { FALSE_USAGE_NAMES, falseUsageRequest } from './false-usage.ts';
import type { Random } from '../test/support/random.ts';

/** The callers, models and instances to choose from. */
export interface RequestChoices {
  callers: readonly (CallerKey & { weight: number })[];
  models: readonly { id: string; embedded: boolean }[];
  instances: number;
}

/** Faults that requests cause in the engine. The weights are relative to `HEALTHY`. */
const DIRECTIVES: readonly { name: string; weight: number; draw: (random: Random) => Directive }[] = [
  { name: 'error', weight: 60, draw: () => ({ error: 'internal_error' }) },
  { name: 'errorAfter', weight: 120, draw: (random) => ({ errorAfter: random.between(0, 12) }) },
  { name: 'cutAfter', weight: 120, draw: (random) => ({ cutAfter: random.between(0, 12) }) },
  { name: 'endAfter', weight: 80, draw: (random) => ({ endAfter: random.between(0, 12) }) },
  { name: 'garbageAfter', weight: 80, draw: (random) => ({ garbageAfter: random.between(0, 12) }) },
  { name: 'dieAfter', weight: 8, draw: (random) => ({ dieAfter: random.between(0, 12) }) },
];

/** Always the same request, which is refused after it has crashed the embedded engine twice. */
const CRASH = { name: 'crash', weight: 8, draw: (): Directive => ({ tokens: 3, dieAfter: 1 }) };

/** Freezes the embedded engine until the supervisor kills it. */
const FREEZE = { name: 'freezeAfter', weight: 2, draw: () => ({ freezeAfter: 3 }) };

const HEALTHY = 10_000;

/** Maximum completion tokens per choice. */
const MOST_TOKENS = 60;

/** Generates the request with this number. */
export function randomRequest(number: number, choices: RequestChoices, random: Random): TortureRequest {
  const endpoint = random.chance(0.7) ? 'chat' : 'text';
  const model = random.pick(choices.models);
  if (model.id === FALSE_USAGE_MODEL) return randomFalseUsageRequest(number, choices, random);
  const faults = model.embedded ? [...DIRECTIVES, FREEZE, CRASH] : DIRECTIVES;
  const healthy = { name: null, weight: HEALTHY, draw: (): Directive => ({}) };
  const fault = random.weighted([healthy, ...faults]);
  if (fault === CRASH) return randomCrashRequest(number, model.id, choices, random);
  const tokens = random.between(1, MOST_TOKENS);
  const directive = {
    tokens,
    tokenMs: random.pick([0, 0, 2, 5, 20]),
    prefillMs: random.pick([0, 0, 0, 30]),
    ...fault.draw(random),
  };
  const prompt = `${'word '.repeat(random.between(0, 20))}${scripted(directive)}`;
  // The scripted engine only reads the directive of the last prompt.
  const prompts = endpoint === 'text' && random.chance(0.2) ? ['Once upon a time', prompt] : [prompt];
  const bound = random.chance(0.9) ? random.between(1, MOST_TOKENS) : null;
  const n = random.pick([1, 1, 1, 2, 3]);
  const streamed = random.chance(0.65);
  const completionTokens = Math.min(tokens, bound ?? Infinity) * n * prompts.length;
  return {
    clientRequestId: `torture-${number}`,
    caller: random.weighted(choices.callers),
    instance: random.between(0, choices.instances - 1),
    model: model.id,
    endpoint,
    streamed,
    body: {
      model: model.id,
      ...(endpoint === 'chat'
        ? { messages: [{ role: 'user', content: prompt }] }
        : { prompt: prompts.length === 1 ? prompt : prompts }),
      ...(bound === null ? {} : { max_tokens: bound }),
      ...(n === 1 ? {} : { n }),
      ...(streamed ? { stream: true } : {}),
      ...(streamed && random.chance(0.5) ? { stream_options: { include_usage: true } } : {}),
    },
    promptTokens: prompts.reduce((sum, text) => sum + Math.ceil(text.length / 4), 0),
    completionTokens,
    expectedUsage: null,
    directive: fault.name,
    disconnect: randomDisconnect(streamed, completionTokens, random),
  };
}

function randomCrashRequest(
  number: number,
  model: string,
  choices: RequestChoices,
  random: Random,
): TortureRequest {
  const content = scripted(CRASH.draw());
  const streamed = random.chance(0.5);
  return {
    clientRequestId: `torture-${number}`,
    caller: random.weighted(choices.callers),
    instance: random.between(0, choices.instances - 1),
    model,
    endpoint: 'chat',
    streamed,
    body: { model, messages: [{ role: 'user', content }], ...(streamed ? { stream: true } : {}) },
    promptTokens: Math.ceil(content.length / 4),
    completionTokens: 3,
    expectedUsage: null,
    directive: CRASH.name,
    disconnect: null,
  };
}

/** Half of the requests to this replica select a false usage. */
function randomFalseUsageRequest(number: number, choices: RequestChoices, random: Random): TortureRequest {
  const streamed = random.chance(0.65);
  const words = random.between(1, MOST_TOKENS);
  const request = falseUsageRequest({
    id: `torture-${number}`,
    caller: random.weighted(choices.callers),
    instance: random.between(0, choices.instances - 1),
    endpoint: random.chance(0.7) ? 'chat' : 'text',
    streamed,
    usage: random.chance(0.5) ? random.pick(FALSE_USAGE_NAMES) : 'correct',
    words,
    spareTokens: random.between(0, 20),
  });
  return { ...request, disconnect: randomDisconnect(streamed, words, random) };
}

/** One in ten requests is aborted, at a random moment between sending and the last token. */
function randomDisconnect(
  streamed: boolean,
  completionTokens: number,
  random: Random,
): DisconnectPoint | null {
  if (!random.chance(0.1)) return null;
  if (streamed && random.chance(0.7)) return { afterTokens: random.between(0, completionTokens) };
  return { afterMs: random.between(0, 600) };
}
