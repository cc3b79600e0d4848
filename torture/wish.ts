import { scripted, type Directive } from '../src/engine/scripted/options.ts';
import type { Caller, HangUp, Wish } from './books.ts';
import { LIAR_MODEL } from './configuration.ts';
import { LIE_NAMES, wishForLie } from './lies.ts';
import type { Random } from './random.ts';

/** What may be asked for. */
export interface Menu {
  callers: readonly (Caller & { weight: number })[];
  models: readonly { id: string; embedded: boolean }[];
  copies: number;
}

/** Faults that a request asks of its engine, by how many of 10,000 do. */
const DIRECTIVES: readonly { name: string; weight: number; draw: (random: Random) => Directive }[] = [
  { name: 'error', weight: 60, draw: () => ({ error: 'internal_error' }) },
  { name: 'errorAfter', weight: 120, draw: (random) => ({ errorAfter: random.between(0, 12) }) },
  { name: 'cutAfter', weight: 120, draw: (random) => ({ cutAfter: random.between(0, 12) }) },
  { name: 'endAfter', weight: 80, draw: (random) => ({ endAfter: random.between(0, 12) }) },
  { name: 'garbageAfter', weight: 80, draw: (random) => ({ garbageAfter: random.between(0, 12) }) },
  { name: 'noUsage', weight: 120, draw: () => ({ noUsage: true }) },
  { name: 'dieAfter', weight: 8, draw: (random) => ({ dieAfter: random.between(0, 12) }) },
];

/** Kills its engine, and is the same each time, so that it is refused after two crashes: of an embedded engine only. */
const BOMB = { name: 'bomb', weight: 8, draw: (): Directive => ({ tokens: 3, dieAfter: 1 }) };

/** Does not end in time for callers to wait, nor for the engine to be fast again: of an embedded engine only. */
const FREEZE = { name: 'freezeAfter', weight: 2, draw: () => ({ freezeAfter: 3 }) };

const HEALTHY = 10_000;

/** Longest answer that nobody bounds, in tokens a choice. */
const MOST_TOKENS = 60;

/** Draws the nth request of a run. */
export function drawWish(number: number, menu: Menu, random: Random): Wish {
  const endpoint = random.chance(0.7) ? 'chat' : 'text';
  const model = random.pick(menu.models);
  if (model.id === LIAR_MODEL) return drawForLiar(number, menu, random);
  const faults = model.embedded ? [...DIRECTIVES, FREEZE, BOMB] : DIRECTIVES;
  const healthy = { name: null, weight: HEALTHY, draw: (): Directive => ({}) };
  const fault = random.weighted([healthy, ...faults]);
  if (fault === BOMB) return drawBomb(number, model.id, menu, random);
  const tokens = random.between(1, MOST_TOKENS);
  const directive = {
    tokens,
    tokenMs: random.pick([0, 0, 2, 5, 20]),
    prefillMs: random.pick([0, 0, 0, 30]),
    ...fault.draw(random),
  };
  const prompt = `${'word '.repeat(random.between(0, 20))}${scripted(directive)}`;
  // Only the last prompt is read for what the engine is told.
  const prompts = endpoint === 'text' && random.chance(0.2) ? ['Once upon a time', prompt] : [prompt];
  const bound = random.chance(0.9) ? random.between(1, MOST_TOKENS) : null;
  const choices = random.pick([1, 1, 1, 2, 3]);
  const streamed = random.chance(0.65);
  const completionTokens = Math.min(tokens, bound ?? Infinity) * choices * prompts.length;
  return {
    clientRequestId: `torture-${number}`,
    caller: random.weighted(menu.callers),
    copy: random.between(0, menu.copies - 1),
    model: model.id,
    endpoint,
    streamed,
    body: {
      model: model.id,
      ...(endpoint === 'chat'
        ? { messages: [{ role: 'user', content: prompt }] }
        : { prompt: prompts.length === 1 ? prompt : prompts }),
      ...(bound === null ? {} : { max_tokens: bound }),
      ...(choices === 1 ? {} : { n: choices }),
      ...(streamed ? { stream: true } : {}),
      ...(streamed && random.chance(0.5) ? { stream_options: { include_usage: true } } : {}),
    },
    promptTokens: prompts.reduce((sum, text) => sum + Math.ceil(text.length / 4), 0),
    completionTokens,
    charged: null,
    directive: fault.name,
    hangUp: drawHangUp(streamed, completionTokens, random),
  };
}

function drawBomb(number: number, model: string, menu: Menu, random: Random): Wish {
  const content = scripted(BOMB.draw());
  const streamed = random.chance(0.5);
  return {
    clientRequestId: `torture-${number}`,
    caller: random.weighted(menu.callers),
    copy: random.between(0, menu.copies - 1),
    model,
    endpoint: 'chat',
    streamed,
    body: { model, messages: [{ role: 'user', content }], ...(streamed ? { stream: true } : {}) },
    promptTokens: Math.ceil(content.length / 4),
    completionTokens: 3,
    charged: null,
    directive: BOMB.name,
    hangUp: null,
  };
}

/** The lying replica lies to every second request that is drawn for it. */
function drawForLiar(number: number, menu: Menu, random: Random): Wish {
  const streamed = random.chance(0.65);
  const words = random.between(1, MOST_TOKENS);
  const wish = wishForLie({
    id: `torture-${number}`,
    caller: random.weighted(menu.callers),
    copy: random.between(0, menu.copies - 1),
    endpoint: random.chance(0.7) ? 'chat' : 'text',
    streamed,
    lie: random.chance(0.5) ? random.pick(LIE_NAMES) : 'none',
    words,
    spareTokens: random.between(0, 20),
  });
  return { ...wish, hangUp: drawHangUp(streamed, words, random) };
}

/** One request of ten is given up, at any moment from its sending to its last token. */
function drawHangUp(streamed: boolean, completionTokens: number, random: Random): HangUp | null {
  if (!random.chance(0.1)) return null;
  if (streamed && random.chance(0.7)) return { afterTokens: random.between(0, completionTokens) };
  return { afterMs: random.between(0, 600) };
}
