import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { ApiError } from '../../console/src/api/client.ts';
import { embedFor, generateFor, playgroundKey } from '../../console/src/api/playground-key.ts';

const HOUR_MS = 3_600_000;
const KEYS_PATH = '/api/playground-keys';

/** The requests that the service received. */
let received: { path: string; account: string; authorization: string }[] = [];
/** The keys that the service refuses. */
let revoked: Set<string>;
let account = 0;
/** Different in each test, because keys are cached for the lifetime of the page. */
let accountId = '';

beforeEach(() => {
  received = [];
  revoked = new Set();
  accountId = `acct_${account++}`;
  mock.timers.enable({ apis: ['Date'], now: Date.parse('2026-11-22T12:00:00Z') });
  mock.method(globalThis, 'fetch', respond);
});

afterEach(() => {
  mock.timers.reset();
  mock.restoreAll();
});

async function respond(
  path: string,
  { headers, body }: { headers: object; body: string },
): Promise<Response> {
  const authorization = String(new Headers({ ...headers }).get('authorization'));
  const given = JSON.parse(body) as { account_id?: string };
  received.push({ path, account: given.account_id ?? '', authorization });
  if (path === KEYS_PATH) {
    const expires_at = new Date(Date.now() + HOUR_MS).toISOString();
    return Response.json({ id: 'key', key: `sk-sluice-${received.length}`, expires_at }, { status: 201 });
  }
  if (revoked.has(authorization)) {
    const error = { message: 'No.', type: 'authentication_error', param: null, code: 'invalid_api_key' };
    return Response.json({ error }, { status: 401 });
  }
  if (path === '/v1/embeddings')
    return Response.json({ data: [{ embedding: [1, 0] }], usage: { prompt_tokens: 2 } });
  return Response.json({ choices: [{ index: 0, message: { content: 'hi' }, finish_reason: 'stop' }] });
}

const keysCreated = () => received.filter(({ path }) => path === KEYS_PATH).length;

async function generated(): Promise<string> {
  let text = '';
  const call = { body: {}, stream: false } as const;
  for await (const event of generateFor(accountId, call)) if (event.type === 'text') text += event.text;
  return text;
}

test('callers of an account share one key, even while it is being created', async () => {
  const keys = await Promise.all([playgroundKey(accountId), playgroundKey(accountId)]);
  assert.equal(await playgroundKey(accountId), keys[0]);
  assert.equal(keys[1], keys[0]);
  assert.deepEqual(
    received.map(({ account }) => account),
    [accountId],
  );
  assert.notEqual(await playgroundKey(`${accountId}_other`), keys[0]);
});

test('a key is replaced before it expires', async () => {
  const first = await playgroundKey(accountId);
  mock.timers.tick(HOUR_MS - 5 * 60_000 - 1);
  assert.equal(await playgroundKey(accountId), first);
  mock.timers.tick(1);
  assert.notEqual(await playgroundKey(accountId), first);
  assert.equal(keysCreated(), 2);
});

test('a refused key is replaced, and the request is sent again', async () => {
  assert.equal(await generated(), 'hi');
  revoked.add(`Bearer ${await playgroundKey(accountId)}`);
  assert.deepEqual(await Promise.all([generated(), generated()]), ['hi', 'hi']);
  assert.equal(keysCreated(), 2);
});

test('a refused key is replaced for embeddings too', async () => {
  revoked.add(`Bearer ${await playgroundKey(accountId)}`);
  const { vectors, promptTokens } = await embedFor(accountId, { body: {} });
  assert.deepEqual([vectors, promptTokens], [[[1, 0]], 2]);
  assert.equal(keysCreated(), 2);
});

test('if the new key is refused too, the error is returned without further retries', async () => {
  for (let key = 1; key < 10; key++) revoked.add(`Bearer sk-sluice-${key}`);
  await assert.rejects(generated(), { code: 'invalid_api_key' });
  assert.equal(keysCreated(), 2);
});

test('after a failed creation, the next caller tries again', async () => {
  const failing = mock.method(globalThis, 'fetch', () => Promise.reject(new TypeError('fetch failed')));
  await assert.rejects(playgroundKey(accountId), ApiError);
  failing.mock.restore();
  mock.method(globalThis, 'fetch', respond);
  assert.match(await playgroundKey(accountId), /^sk-sluice-/);
});
