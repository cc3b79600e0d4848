import type { ApiError } from '../../api/client.ts';
import type { GenerateEvent, TokenLogprob, Usage } from '../../api/generate.ts';
import { isObject, readJson } from '../../format/json.ts';

export interface Fault {
  message: string;
  code: string;
  param: string | null;
  requestId: string | null;
  /** When to retry, Unix milliseconds; null: waiting does not help. */
  retryAtMs: number | null;
}

export interface Answer {
  model: string;
  choices: readonly Choice[];
  /** Index of the choice that the conversation continues with. */
  chosen: number;
  requestId: string | null;
  /** Time to first token, in milliseconds; null: none yet, or not streamed. */
  ttftMs: number | null;
  /** Total time in milliseconds; null: in progress, or the end was not observed. */
  totalMs: number | null;
  usage: Usage | null;
  /** USD, a decimal string, from the receipt; null: unknown. */
  cost: string | null;
  fault: Fault | null;
  stopped: boolean;
}

export interface ToolCall {
  id: string;
  name: string;
  /** JSON, possibly incomplete. */
  arguments: string;
}

interface Choice {
  text: string;
  /** Reasoning before `text`; empty: none. */
  reasoning: string;
  calls: readonly ToolCall[];
  /** Finish reason; null: not finished. */
  finish: string | null;
  logprobs: readonly TokenLogprob[];
}

export function emptyAnswer(model: string): Answer {
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

export function isInProgress({ stopped, fault, totalMs }: Answer): boolean {
  return !stopped && fault === null && totalMs === null;
}

export function afterEvent(answer: Answer, event: GenerateEvent): Answer {
  switch (event.type) {
    case 'accepted':
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
    case 'tool_call':
      return withChoice(answer, event.choice, (choice) => ({
        ...choice,
        calls: withCall(choice.calls, event),
      }));
    case 'finish':
      return withChoice(answer, event.choice, (choice) => ({ ...choice, finish: event.reason }));
    case 'usage':
      return { ...answer, usage: event.usage };
    case 'fault':
      return { ...answer, fault: faultOf(event.error) };
    case 'end':
      return { ...answer, totalMs: event.totalMs };
  }
}

/** Converts an error received at `nowMs`. */
export function faultOf(error: ApiError, nowMs = Date.now()): Fault {
  const { message, code, param, requestId, retryAfterMs } = error;
  return { message, code, param, requestId, retryAtMs: retryAfterMs === null ? null : nowMs + retryAfterMs };
}

/** Returns the tokens per second after the first token, as the service computes it; null: unknown. */
export function speedOf({ usage, ttftMs, totalMs }: Answer): number | null {
  if (usage === null || ttftMs === null || totalMs === null) return null;
  if (usage.completionTokens < 2 || totalMs <= ttftMs) return null;
  return ((usage.completionTokens - 1) * 1000) / (totalMs - ttftMs);
}

export function emptyText({ choices, chosen, stopped }: Answer): string {
  const { reasoning = '', finish = null } = choices[chosen] ?? {};
  if (stopped) return `Stopped ${reasoning === '' ? 'before the first token' : 'during the reasoning'}.`;
  if (finish === 'content_filter') return 'The content filter of the provider withheld the response.';
  if (reasoning === '') return 'The response is empty.';
  return finish === 'length'
    ? 'The token limit was reached during the reasoning. Raise the maximum tokens and regenerate the response.'
    : 'The response has only reasoning.';
}

const EMPTY: Choice = { text: '', reasoning: '', calls: [], finish: null, logprobs: [] };
const EMPTY_CALL: ToolCall = { id: '', name: '', arguments: '' };

function withChoice(answer: Answer, index: number, change: (choice: Choice) => Choice): Answer {
  const choices = [...answer.choices];
  while (choices.length <= index) choices.push(EMPTY);
  choices[index] = change(choices[index] ?? EMPTY);
  return { ...answer, choices };
}

function withCall(
  calls: readonly ToolCall[],
  { call: index, id, name, arguments: more }: Extract<GenerateEvent, { type: 'tool_call' }>,
): ToolCall[] {
  const next = [...calls];
  while (next.length <= index) next.push(EMPTY_CALL);
  const before = next[index] ?? EMPTY_CALL;
  next[index] = { id: id ?? before.id, name: name ?? before.name, arguments: before.arguments + more };
  return next;
}

/** Returns whether the arguments of a call are the JSON of an object. Empty arguments are accepted too. */
export function isCompleteCall({ arguments: json }: Pick<ToolCall, 'arguments'>): boolean {
  if (json === '') return true;
  const read = readJson(json);
  return 'value' in read && isObject(read.value);
}

/** Deeper levels are not indented further, so that the formatted text stays proportional to the arguments. */
const MAX_INDENT = 16;

/** A string, possibly without its end; a bracket, comma or colon; or a number or word. Skips white space. */
const TOKEN = /"(?:[^"\\]|\\.)*(?:"|\\?$)|[{}[\],:]|[^\s"{}[\],:]+/gs;

/** Indents JSON arguments, even if they are incomplete. Changes only white space outside of strings. */
export function formatArguments(json: string): string {
  let text = '';
  let depth = 0;
  let previous = '';
  for (const [token] of json.matchAll(TOKEN)) {
    const closes = token === '}' || token === ']';
    const opened = previous === '{' || previous === '[';
    if (closes) depth = Math.max(0, depth - 1);
    // Empty objects and lists stay on one line.
    if (closes ? !opened : opened || previous === ',') {
      text += `\n${'  '.repeat(Math.min(depth, MAX_INDENT))}`;
    }
    text += token === ':' ? ': ' : token;
    if (token === '{' || token === '[') depth++;
    previous = token;
  }
  return text;
}
