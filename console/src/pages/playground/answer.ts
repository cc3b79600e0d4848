import type { ApiError } from '../../api/client.ts';
import type { GenerateEvent, TokenLogprob, Usage } from '../../api/generate.ts';
import { costOf, type Pricing } from './cost.ts';

/** What kept an answer from coming, or from coming whole. */
export interface Fault {
  message: string;
  code: string;
  param: string | null;
  requestId: string | null;
  /** When it may be asked for again, Unix milliseconds; null: waiting is not what helps. */
  retryAtMs: number | null;
}

/** An answer, as far as it has come, with what is known of how it came. */
export interface Answer {
  model: string;
  choices: readonly Choice[];
  /** The one that the conversation goes on with. */
  chosen: number;
  requestId: string | null;
  /** Time to the first token, in milliseconds; null: there was none yet, or the answer came whole. */
  ttftMs: number | null;
  /** From the sending to the end, in milliseconds; null: it is under way, or nobody saw its end. */
  totalMs: number | null;
  usage: Usage | null;
  /** USD, a decimal string; null: not known. */
  cost: string | null;
  fault: Fault | null;
  /** It was ended by the person. */
  stopped: boolean;
}

interface Choice {
  text: string;
  /** What the model thought before `text`; '' where it did not. */
  reasoning: string;
  /** Null: it did not come to its end. */
  finish: string | null;
  logprobs: readonly TokenLogprob[];
}

/** An answer of which nothing has come. */
export function nothingOf(model: string): Answer {
  return {
    model,
    choices: [],
    chosen: 0,
    requestId: null,
    ttftMs: null,
    totalMs: null,
    usage: null,
    cost: null,
    fault: null,
    stopped: false,
  };
}

/** The answer after this event. `pricing` is the model's; null: not known. */
export function afterEvent(answer: Answer, event: GenerateEvent, pricing: Pricing | null): Answer {
  switch (event.type) {
    case 'taken':
      return { ...answer, requestId: event.requestId };
    case 'first_token':
      return { ...answer, ttftMs: event.ttftMs };
    case 'text':
      return withChoice(answer, event.choice, (choice) => ({
        ...choice,
        text: choice.text + event.text,
        logprobs: event.logprobs.length > 0 ? [...choice.logprobs, ...event.logprobs] : choice.logprobs,
      }));
    case 'reasoning':
      return withChoice(answer, event.choice, (choice) => ({
        ...choice,
        reasoning: choice.reasoning + event.text,
      }));
    case 'finish':
      return withChoice(answer, event.choice, (choice) => ({ ...choice, finish: event.reason }));
    case 'usage':
      return { ...answer, usage: event.usage, cost: pricing && costOf(event.usage, pricing) };
    case 'fault':
      // What our own fault ended costs nothing; what it would have cost is not to be read here.
      return { ...answer, fault: faultOf(event.error), cost: null };
    case 'end':
      return { ...answer, totalMs: event.totalMs };
  }
}

/** What is kept of a fault, told at `nowMs`. */
export function faultOf(error: ApiError, nowMs = Date.now()): Fault {
  const { message, code, param, requestId, retryAfterMs } = error;
  return { message, code, param, requestId, retryAtMs: retryAfterMs === null ? null : nowMs + retryAfterMs };
}

/** Tokens a second after the first one, as the service counts them; null where it cannot be told. */
export function speedOf({ usage, ttftMs, totalMs }: Answer): number | null {
  if (usage === null || ttftMs === null || totalMs === null) return null;
  if (usage.completionTokens < 2 || totalMs <= ttftMs) return null;
  return ((usage.completionTokens - 1) * 1000) / (totalMs - ttftMs);
}

const EMPTY: Choice = { text: '', reasoning: '', finish: null, logprobs: [] };

function withChoice(answer: Answer, index: number, change: (choice: Choice) => Choice): Answer {
  const choices = [...answer.choices];
  while (choices.length <= index) choices.push(EMPTY);
  choices[index] = change(choices[index] ?? EMPTY);
  return { ...answer, choices };
}
