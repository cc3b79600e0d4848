import { DEFAULT_MODEL_ID } from '../../src/config/schema.ts';
import { scripted, type Directive } from '../../src/engine/scripted/options.ts';
import { HeldClock, startService, until, type TestService } from '../harness.ts';
import { Management } from '../management.ts';

/** The model that follows directives. It has one slot, and one request may wait for it. */
export const SCRIPTED = 'test/scripted';

/** A scripted model whose engine a test may kill: it takes a while to come back. */
export const MORTAL = 'test/mortal';

/** The real one. */
export const REAL = DEFAULT_MODEL_ID;

/** For tests of text: why they cannot run here. */
export const WITH_MODEL = {
  skip: process.env.SLUICE_TEST_MODEL === undefined && 'SLUICE_TEST_MODEL is not set',
};

/** Longer than any test, in milliseconds: what is told to wait for so long ends by something else. */
export const FOREVER = 1_000_000;

/** More than the service takes of one body, in characters. */
export const TOO_LARGE = 'x'.repeat(70_000);

/** More than the scripted model's context. */
export const TOO_LONG = 'word '.repeat(5000);

const LIMITS = `queue: {maxRequests: 1}
limits: {bodyBytes: 65536, bodyMs: 1000}
plans:
  open: {}
  brief: {requestsPerMinute: 600, burst: {requests: 1}}
  spent: {tokensPerDay: 1}
defaultPlan: open
`;

/** Keys that may use less than that of the service. */
export interface LimitedKeys {
  /** One request, then the next after 100 ms of the service's clock. It has not been used. */
  brief: () => Promise<string>;
  /** Nothing, today or any day. */
  spent: string;
  /** Another model than those there are. */
  elsewhere: string;
}

export async function limitedKeys(test: TestService): Promise<LimitedKeys> {
  const manager = await Management.of(test);
  return {
    brief: async () => (await manager.caller('brief')).key,
    spent: (await manager.caller('spent')).key,
    elsewhere: (await manager.caller(null, { allowed_models: ['acme/other'] })).key,
  };
}

export interface ServiceForClients extends TestService {
  /** By which limits refill: a bucket that is empty stays empty until a test moves it. */
  clock: HeldClock;
}

/** A service with these models, for the client libraries to call. */
export async function startForClients(): Promise<ServiceForClients> {
  const file = process.env.SLUICE_TEST_MODEL;
  const models = [
    model(SCRIPTED, { file: 'scripted:{"slots":1}' }),
    model(MORTAL, { file: 'scripted:{"loadMs":300}' }),
    ...(file === undefined ? [] : [model(REAL, { file, slots: 2, contextTokens: 512, threads: 1 })]),
  ];
  const clock = new HeldClock();
  const service = await startService(`models:\n${models.join('')}${LIMITS}`, {}, clock);
  return { ...service, clock };
}

function model(id: string, engine: object): string {
  return `  - {id: ${id}, required: true, engine: ${JSON.stringify(engine)}}\n`;
}

/** Messages of one user who says this, or directs the scripted engine. */
export function says(what: string | Directive): [{ role: 'user'; content: string }] {
  return [{ role: 'user', content: typeof what === 'string' ? what : scripted(what) }];
}

/** Resolves when no request runs or waits: every slot is free again. */
export async function slotsFree({ service }: TestService): Promise<void> {
  await until(async () => {
    const healths = await Promise.all(
      service.models.map(({ engine }) => engine.health(AbortSignal.timeout(5000))),
    );
    const waiting = service.router.overview().map((entry) => entry.waiting);
    return (
      healths.every(({ slotsInUse, queued }) => slotsInUse === 0 && queued === 0) &&
      waiting.every((n) => n === 0)
    );
  });
}

/** Takes the one slot of the scripted model and the one place in its queue, so that the next request is refused. */
export async function fillQueue(test: TestService): Promise<AsyncDisposable> {
  const stop = new AbortController();
  const overview = () => test.service.router.overview().find(({ id }) => id === SCRIPTED);
  const occupy = () =>
    fetch(`${test.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${test.key}` },
      body: JSON.stringify({ model: SCRIPTED, stream: true, messages: says({ tokenMs: FOREVER }) }),
      signal: stop.signal,
    });
  const holding = occupy();
  await holding;
  const waiting = occupy();
  waiting.catch(() => {}); // Ended by the signal.
  await until(() => overview()?.waiting === 1);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      // Kept until here: a response that nobody can read any more is cancelled by the garbage collector.
      await Promise.allSettled([holding, waiting]);
      await slotsFree(test);
    },
  };
}

/** Moves the clock of limits by as long as a 429 says, so that the next request is admitted. */
export function waitAsTold({ clock }: ServiceForClients): (refused: Response) => Promise<void> {
  return async (refused) => clock.advance(Number(refused.headers.get('retry-after-ms')));
}

/** `fetch` for a client library that notes every status, and runs `onRefusal` before the library sees a 429 or 503. */
export function watchedFetch(onRefusal: (refused: Response) => Promise<void> = async () => {}): {
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

/** Kills the engine of the mortal model by way of a request, and resolves when that was answered. */
export async function killEngine(test: TestService): Promise<void> {
  const answer = await fetch(`${test.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${test.key}` },
    body: JSON.stringify({ model: MORTAL, messages: says({ dieAfter: 0 }) }),
  });
  await answer.text();
}
