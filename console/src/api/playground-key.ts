import { ApiError, call } from './client.ts';
import { generate, type GenerateCall, type GenerateEvent } from './generate.ts';

/** A key that the service is asked for, or has given. */
interface Held {
  key: Promise<{ key: string; expires_at: string }>;
  /** Unix milliseconds from which on it is not used any more; not known before it is there. */
  untilMs: number;
}

/** One an account, in memory alone: they go with the page. */
const held = new Map<string, Held>();

/** A key that has less than this to live is renewed, so that none dies between its taking and its use. Milliseconds. */
const LEAST_LIFE_MS = 5 * 60_000;

/**
 * A short-lived key of the account, on the account's own limits. Callers share one, also those who ask while it is
 * being made. Rejects with an `ApiError`, and the next caller tries anew.
 */
export async function playgroundKey(accountId: string): Promise<string> {
  let one = held.get(accountId);
  if (one === undefined || Date.now() >= one.untilMs) {
    one = ask(accountId);
    held.set(accountId, one);
  }
  return (await one.key).key;
}

function ask(accountId: string): Held {
  const one: Held = {
    key: call('createPlaygroundKey', { body: { account_id: accountId } }),
    untilMs: Infinity,
  };
  one.key.then(
    ({ expires_at }) => {
      one.untilMs = Date.parse(expires_at) - LEAST_LIFE_MS;
    },
    () => {
      if (held.get(accountId) === one) held.delete(accountId);
    },
  );
  return one;
}

/** Lets go of a key that the service no longer takes; one that has been renewed meanwhile stays. */
async function forget(accountId: string, refused: string): Promise<void> {
  const one = held.get(accountId);
  if (one !== undefined && (await one.key).key === refused && held.get(accountId) === one)
    held.delete(accountId);
}

/**
 * Generates on a short-lived key of the account. A key that was revoked, or has expired by the service's clock, is
 * replaced once. Otherwise as `generate` does.
 */
export async function* generateFor(
  accountId: string,
  given: Omit<GenerateCall, 'key'>,
): AsyncGenerator<GenerateEvent, void, undefined> {
  const key = await playgroundKey(accountId);
  try {
    // A 401 comes before the first event, so nothing is told twice.
    yield* generate({ ...given, key });
    return;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
  await forget(accountId, key);
  yield* generate({ ...given, key: await playgroundKey(accountId) });
}
