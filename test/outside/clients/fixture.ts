import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { DEFAULT_MODEL_ID } from '../../../src/config/schema.ts';
import { scripted, type Directive } from '../../support/scripted-engine/directive.ts';
import { ManualClock, startService, until, type TestService, untilIdle } from '../../harness.ts';
import { Management } from '../../management.ts';

/** A scripted model with one slot and a queue of one request. */
export const SCRIPTED = 'test/scripted';

/** A scripted model whose engine tests kill. Restarting takes a while. */
export const KILLABLE = 'test/killable';

/** The real model. */
export const REAL = DEFAULT_MODEL_ID;

/** Options of tests that need the real model. */
export const WITH_MODEL = {
  skip: process.env.SLUICE_TEST_MODEL === undefined && 'SLUICE_TEST_MODEL is not set',
};

/** Longer than any test, in milliseconds. */
export const FOREVER = 1_000_000;

/** Larger than the maximum body. */
export const TOO_LARGE = 'x'.repeat(70_000);

/** Longer than the scripted model's context. */
export const TOO_LONG = 'word '.repeat(5000);

const LIMITS = `queue: {maxRequests: 1}
limits: {bodyBytes: 65536, bodyMs: 1000}
plans:
  open: {}
  brief: {requestsPerMinute: 600, burst: {requests: 1}}
  spent: {tokensPerDay: 1}
defaultPlan: open
`;

/** API keys with limits. */
export interface LimitedKeys {
  /** Creates a key that allows one request per 100 ms of the service's clock. */
  brief: () => Promise<string>;
  /** Allows no request. */
  spent: string;
  /** Allows only a model that does not exist. */
  otherModel: string;
}

export async function limitedKeys(test: TestService): Promise<LimitedKeys> {
  const manager = await Management.of(test);
  return {
    brief: async () => (await manager.caller('brief')).key,
    spent: (await manager.caller('spent')).key,
    otherModel: (await manager.caller(null, { allowed_models: ['acme/other'] })).key,
  };
}

export interface ServiceForClients extends TestService {
  /** The clock of the limits, which only tests advance. */
  clock: ManualClock;
}

/** Starts a service with these models. */
export async function startForClients(): Promise<ServiceForClients> {
  const file = process.env.SLUICE_TEST_MODEL;
  const models = [
    model(SCRIPTED, { file: 'scripted:{"slots":1,"ownProcess":true}' }),
    model(KILLABLE, { file: 'scripted:{"loadMs":300,"ownProcess":true}' }),
    ...(file === undefined ? [] : [model(REAL, { file, slots: 2, contextTokens: 512, threads: 1 })]),
  ];
  const clock = new ManualClock();
  const service = await startService(`models:\n${models.join('')}${LIMITS}`, {}, { clock });
  return { ...service, clock };
}

function model(id: string, engine: object): string {
  return `  - {id: ${id}, required: true, engine: ${JSON.stringify(engine)}}\n`;
}

/** Returns a user message with this text, or with a directive to the scripted engine. */
export function userMessage(content: string | Directive): [{ role: 'user'; content: string }] {
  return [{ role: 'user', content: typeof content === 'string' ? content : scripted(content) }];
}

/** A response with reasoning, text and two calls. */
export const CALLS = {
  reasoning: 'The weather of two places.',
  text: 'One moment.',
  calls: [
    { name: 'get_weather', arguments: { city: 'Zürich', days: [1, 2] } },
    { name: 'get_time', arguments: {} },
  ],
} satisfies Directive;

/** Occupies the slot and the queue of the scripted model, so that the next request is refused. */
export async function fillQueue(test: TestService): Promise<AsyncDisposable> {
  const stop = new AbortController();
  const overview = () => test.service.router.overview().find(({ id }) => id === SCRIPTED);
  const start = () =>
    fetch(`${test.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${test.key}` },
      body: JSON.stringify({ model: SCRIPTED, stream: true, messages: userMessage({ tokenMs: FOREVER }) }),
      signal: stop.signal,
    });
  const running = start();
  await running;
  const waiting = start();
  waiting.catch(() => {}); // Aborted by the signal.
  await until(() => overview()?.waiting === 1);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      // This reference keeps the garbage collector from cancelling the response.
      await Promise.allSettled([running, waiting]);
      await untilIdle(test);
    },
  };
}

/** Advances the clock of the limits by the `retry-after-ms` of a 429, so that the next request is admitted. */
export function advanceByRetryAfter({ clock }: ServiceForClients): (response: Response) => Promise<void> {
  return async (response) => clock.advance(Number(response.headers.get('retry-after-ms')));
}

/** Returns a `fetch` that records every status, and calls `onRefusal` before it returns a 429 or 503. */
export function recordingFetch(onRefusal: (response: Response) => Promise<void> = async () => {}): {
  fetch: typeof fetch;
  statuses: number[];
} {
  const statuses: number[] = [];
  return {
    statuses,
    async fetch(...call: Parameters<typeof fetch>) {
      const response = await fetch(...call);
      statuses.push(response.status);
      if (response.status === 503 || response.status === 429) await onRefusal(response);
      return response;
    },
  };
}

/** Kills an engine with a request, and resolves after the response. */
export async function killEngine(test: TestService): Promise<void> {
  // An account or a request with several crashes is refused for a while.
  const text = randomUUID();
  const { key } = await (await Management.of(test)).caller();
  const response = await fetch(`${test.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: KILLABLE, messages: userMessage({ text, dieAfter: 0 }) }),
  });
  await response.text();
}

/** Resolves to the error of a rejected promise. */
export async function catchError(call: Promise<unknown>): Promise<unknown> {
  try {
    await call;
  } catch (error) {
    return error;
  }
  throw new assert.AssertionError({ message: 'the request succeeded' });
}
