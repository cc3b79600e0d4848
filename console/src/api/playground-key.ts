import { act } from './act.ts';
import { ApiError } from './client.ts';
import { embed, type EmbedCall, type Embeddings } from './embed.ts';
import { generate, type GenerateCall, type GenerateEvent } from './generate.ts';
import { sessionSignal } from './session.ts';

/** A key that was requested or created. */
interface CachedKey {
  key: Promise<{ key: string; expires_at: string }>;
  /** Unix milliseconds after which it is no longer used; infinite until the key is created. */
  untilMs: number;
}

/** The keys of each session by account, only in memory. They are forgotten when the session ends, which revokes them. */
const keysOfSessions = new WeakMap<AbortSignal, Map<string, CachedKey>>();

/** Minimum remaining lifetime of a key in milliseconds. A key with less is renewed, so that it does not expire before use. */
const MIN_LIFETIME_MS = 5 * 60_000;

/**
 * Returns a short-lived key of the account, subject to the account's limits. Concurrent callers share one key. Rejects
 * with an `ApiError`; the next call tries again.
 */
export async function playgroundKey(accountId: string): Promise<string> {
  const keys = cachedKeys();
  let cached = keys.get(accountId);
  if (cached === undefined || Date.now() >= cached.untilMs) {
    cached = requestKey(keys, accountId);
    keys.set(accountId, cached);
  }
  return (await cached.key).key;
}

function cachedKeys(): Map<string, CachedKey> {
  const session = sessionSignal();
  const keys = keysOfSessions.get(session) ?? new Map<string, CachedKey>();
  keysOfSessions.set(session, keys);
  return keys;
}

function requestKey(keys: Map<string, CachedKey>, accountId: string): CachedKey {
  const cached: CachedKey = {
    key: act('createPlaygroundKey', { body: { account_id: accountId } }),
    untilMs: Infinity,
  };
  cached.key.then(
    ({ expires_at }) => {
      cached.untilMs = Date.parse(expires_at) - MIN_LIFETIME_MS;
    },
    () => {
      if (keys.get(accountId) === cached) keys.delete(accountId);
    },
  );
  return cached;
}

/** Returns a new key if the service refused the key with this error. Throws other errors. */
async function replaceRefused(accountId: string, refused: string, error: unknown): Promise<string> {
  if (!(error instanceof ApiError) || error.status !== 401) throw error;
  const keys = cachedKeys();
  const cached = keys.get(accountId);
  // The key may have been replaced in the meantime.
  if (cached !== undefined && (await cached.key).key === refused && keys.get(accountId) === cached)
    keys.delete(accountId);
  return await playgroundKey(accountId);
}

/**
 * Generates with a short-lived key of the account. Replaces the key once if it was revoked or has expired. Stops when the
 * session ends. Otherwise like `generate`.
 */
export async function* generateFor(
  accountId: string,
  given: Omit<GenerateCall, 'key'>,
): AsyncGenerator<GenerateEvent, void, undefined> {
  const signal = untilSessionEnd(given.signal);
  let key = await orAborted(playgroundKey(accountId), signal);
  try {
    // A 401 comes before the first event, so no event is repeated.
    yield* generate({ ...given, key, signal });
    return;
  } catch (error) {
    key = await orAborted(replaceRefused(accountId, key, error), signal);
  }
  yield* generate({ ...given, key, signal });
}

/** Returns embeddings with a short-lived key of the account, which is replaced like that of `generateFor`. */
export async function embedFor(accountId: string, given: Omit<EmbedCall, 'key'>): Promise<Embeddings> {
  const signal = untilSessionEnd(given.signal);
  let key = await orAborted(playgroundKey(accountId), signal);
  try {
    return await embed({ ...given, key, signal });
  } catch (error) {
    key = await orAborted(replaceRefused(accountId, key, error), signal);
  }
  return await embed({ ...given, key, signal });
}

function untilSessionEnd(signal: AbortSignal | undefined): AbortSignal {
  return signal === undefined ? sessionSignal() : AbortSignal.any([sessionSignal(), signal]);
}

/** Resolves like the promise, or rejects with the reason of the signal when that aborts. */
async function orAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  // The reason of an abort is an error.
  const onAbort = () => reject(signal.reason as Error);
  signal.addEventListener('abort', onAbort);
  try {
    if (signal.aborted) onAbort();
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
