import { ApiError, call } from './client.ts';
import { generate, type GenerateCall, type GenerateEvent } from './generate.ts';

/** A key that was requested or created. */
interface Held {
  key: Promise<{ key: string; expires_at: string }>;
  /** Unix milliseconds after which it is no longer used; infinite until the key is created. */
  untilMs: number;
}

/** One per account, only in memory. */
const held = new Map<string, Held>();

/** A key that expires sooner is renewed, so that it does not expire before it is used. Milliseconds. */
const LEAST_LIFE_MS = 5 * 60_000;

/**
 * Returns a short-lived key of the account, under the limits of the account. Concurrent callers share one key. Rejects
 * with an `ApiError`; the next call tries again.
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

/** Drops a key that the service refused, unless it was renewed in the meantime. */
async function forget(accountId: string, refused: string): Promise<void> {
  const one = held.get(accountId);
  if (one !== undefined && (await one.key).key === refused && held.get(accountId) === one)
    held.delete(accountId);
}

/**
 * Generates with a short-lived key of the account. Replaces the key once if it was revoked or has expired. Otherwise
 * like `generate`.
 */
export async function* generateFor(
  accountId: string,
  given: Omit<GenerateCall, 'key'>,
): AsyncGenerator<GenerateEvent, void, undefined> {
  const key = await playgroundKey(accountId);
  try {
    // A 401 comes before the first event, so no event is repeated.
    yield* generate({ ...given, key });
    return;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
  await forget(accountId, key);
  yield* generate({ ...given, key: await playgroundKey(accountId) });
}
