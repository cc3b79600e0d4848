import { ApiError, call } from './client.ts';
import { embed, type EmbedCall, type Embeddings } from './embed.ts';
import { generate, type GenerateCall, type GenerateEvent } from './generate.ts';

/** A key that was requested or created. */
interface CachedKey {
  key: Promise<{ key: string; expires_at: string }>;
  /** Unix milliseconds after which it is no longer used; infinite until the key is created. */
  untilMs: number;
}

/** One per account, only in memory. */
const cachedKeys = new Map<string, CachedKey>();

/** Minimum remaining lifetime of a key in milliseconds. A key with less is renewed, so that it does not expire before use. */
const MIN_LIFETIME_MS = 5 * 60_000;

/**
 * Returns a short-lived key of the account, subject to the account's limits. Concurrent callers share one key. Rejects
 * with an `ApiError`; the next call tries again.
 */
export async function playgroundKey(accountId: string): Promise<string> {
  let cached = cachedKeys.get(accountId);
  if (cached === undefined || Date.now() >= cached.untilMs) {
    cached = requestKey(accountId);
    cachedKeys.set(accountId, cached);
  }
  return (await cached.key).key;
}

function requestKey(accountId: string): CachedKey {
  const cached: CachedKey = {
    key: call('createPlaygroundKey', { body: { account_id: accountId } }),
    untilMs: Infinity,
  };
  cached.key.then(
    ({ expires_at }) => {
      cached.untilMs = Date.parse(expires_at) - MIN_LIFETIME_MS;
    },
    () => {
      if (cachedKeys.get(accountId) === cached) cachedKeys.delete(accountId);
    },
  );
  return cached;
}

/** Returns a new key if the service refused the key with this error. Throws other errors. */
async function replaceRefused(accountId: string, refused: string, error: unknown): Promise<string> {
  if (!(error instanceof ApiError) || error.status !== 401) throw error;
  const cached = cachedKeys.get(accountId);
  // The key may have been replaced in the meantime.
  if (cached !== undefined && (await cached.key).key === refused && cachedKeys.get(accountId) === cached)
    cachedKeys.delete(accountId);
  return await playgroundKey(accountId);
}

/**
 * Generates with a short-lived key of the account. Replaces the key once if it was revoked or has expired. Otherwise
 * like `generate`.
 */
export async function* generateFor(
  accountId: string,
  given: Omit<GenerateCall, 'key'>,
): AsyncGenerator<GenerateEvent, void, undefined> {
  let key = await playgroundKey(accountId);
  try {
    // A 401 comes before the first event, so no event is repeated.
    yield* generate({ ...given, key });
    return;
  } catch (error) {
    key = await replaceRefused(accountId, key, error);
  }
  yield* generate({ ...given, key });
}

/** Returns embeddings with a short-lived key of the account, which is replaced like that of `generateFor`. */
export async function embedFor(accountId: string, given: Omit<EmbedCall, 'key'>): Promise<Embeddings> {
  let key = await playgroundKey(accountId);
  try {
    return await embed({ ...given, key });
  } catch (error) {
    key = await replaceRefused(accountId, key, error);
  }
  return await embed({ ...given, key });
}
