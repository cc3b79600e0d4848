/** Tests without a browser: reads without a response, and the end of a session. */
import assert from 'node:assert/strict';
import { afterEach, mock, test } from 'node:test';
import { ApiError, call } from '../../console/src/api/client.ts';
import { queryClient } from '../../console/src/api/queries.ts';
import { noteSession, sessionSignal } from '../../console/src/api/session.ts';

afterEach(() => mock.restoreAll());

test('a read without a response fails after the timeout, says so, and is not repeated', async () => {
  mock.method(
    globalThis,
    'fetch',
    (_path: string, { signal }: { signal: AbortSignal }) =>
      new Promise((_, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }),
      ),
  );
  const failure = await call('getSession', undefined, undefined, 20).then(
    () => null,
    (error: unknown) => error,
  );
  assert.ok(failure instanceof ApiError);
  assert.deepEqual([failure.status, failure.code], [0, 'timeout']);
  assert.match(failure.message, /did not respond within 0\.02 seconds/);
  const retry = queryClient.getDefaultOptions().queries?.retry;
  assert.ok(typeof retry === 'function');
  const lost = new ApiError('No connection.', { status: 0, code: 'unreachable' });
  assert.deepEqual([retry(0, failure), retry(0, lost), retry(2, lost)], [false, true, false]);
});

test('the end of a session aborts what belongs to it, also if another user signs in', () => {
  noteSession('user_a');
  const first = sessionSignal();
  noteSession('user_a');
  assert.equal(first.aborted, false);
  noteSession('user_b');
  const second = sessionSignal();
  assert.deepEqual([first.aborted, second.aborted], [true, false]);
  noteSession(null);
  assert.ok(second.reason instanceof ApiError);
});
