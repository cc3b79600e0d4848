import { useCallback, useEffect, useReducer, useRef } from 'react';
import { ApiError } from '../../api/client.ts';
import { embed } from '../../api/embed.ts';
import { generate, type GenerateEvent, type Usage } from '../../api/generate.ts';
import { counted, fixed } from '../../format/number.ts';

/** The state of the first request. */
export interface FirstCall {
  state: 'idle' | 'running' | 'done' | 'failed';
  text: string;
  /** Time to the first token. */
  ttftMs: number | null;
  usage: Usage | null;
  totalMs: number | null;
  /** The id of the receipt. */
  requestId: string | null;
  error: ApiError | null;
}

const IDLE: FirstCall = {
  state: 'idle',
  text: '',
  ttftMs: null,
  usage: null,
  totalMs: null,
  requestId: null,
  error: null,
};

type Step = GenerateEvent | { type: 'sent' } | { type: 'refused'; error: ApiError };

function next(call: FirstCall, step: Step): FirstCall {
  switch (step.type) {
    case 'sent':
      return { ...IDLE, state: 'running' };
    case 'accepted':
      return { ...call, requestId: step.requestId };
    case 'first_token':
      return { ...call, ttftMs: step.ttftMs };
    case 'text':
      return { ...call, text: call.text + step.text };
    case 'reasoning':
    case 'tool_call':
    case 'finish':
      return call;
    case 'usage':
      return { ...call, usage: step.usage };
    case 'fault':
      return { ...call, error: step.error };
    case 'end':
      return { ...call, state: call.error === null ? 'done' : 'failed', totalMs: step.totalMs };
    case 'refused':
      return { ...call, state: 'failed', error: step.error };
  }
}

/** Sends a chat completion request, or one for an embedding if it has an `input`, with the key and tracks its response. Unmounting cancels it. */
export function useFirstCall(apiKey: string): [FirstCall, (body: Readonly<Record<string, unknown>>) => void] {
  const [call, dispatch] = useReducer(next, IDLE);
  const running = useRef<AbortController>(null);
  useEffect(() => () => running.current?.abort(), []);
  const send = useCallback(
    (body: Readonly<Record<string, unknown>>) => {
      const controller = new AbortController();
      running.current = controller;
      dispatch({ type: 'sent' });
      void follow({ apiKey, body, signal: controller.signal }, dispatch);
    },
    [apiKey],
  );
  return [call, send];
}

interface Given {
  apiKey: string;
  body: Readonly<Record<string, unknown>>;
  signal: AbortSignal;
}

async function follow(given: Given, onStep: (step: Step) => void): Promise<void> {
  const { apiKey: key, body, signal } = given;
  try {
    const events = body['input'] === undefined ? generate({ body, key, signal }) : embedding(given);
    for await (const event of events) onStep(event);
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof ApiError)) throw error;
    onStep({ type: 'refused', error });
  }
}

/** Numbers of a vector that are shown. */
const SHOWN = 4;

/** Requests an embedding, and describes its vector as text. */
async function* embedding({ apiKey: key, body, signal }: Given): AsyncGenerator<GenerateEvent> {
  const { vectors, promptTokens, requestId, totalMs } = await embed({ body, key, signal });
  yield { type: 'accepted', requestId };
  const vector = vectors[0] ?? [];
  const numbers = vector.slice(0, SHOWN).map((number) => fixed(number, SHOWN));
  const text = `A vector of ${counted(vector.length, 'number')}: ${numbers.join(', ')}, …`;
  yield { type: 'text', choice: 0, text, logprobs: [] };
  const usage = { promptTokens, completionTokens: 0, reasoningTokens: 0, cachedTokens: 0 };
  yield { type: 'usage', usage };
  yield { type: 'end', totalMs };
}
