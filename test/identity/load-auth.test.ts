import assert from 'node:assert/strict';
import { registerHooks } from 'node:module';
import { test } from 'node:test';
import { loadAuth } from '../../src/identity/identity.ts';

test('better-auth is loaded over many turns of the event loop, and no turn loads half of its modules', async () => {
  const loadedByTurn = [0];
  const hooks = registerHooks({
    load(url, context, nextLoad) {
      loadedByTurn[loadedByTurn.length - 1]! += 1;
      return nextLoad(url, context);
    },
  });
  let loaded = false;
  const nextTurn = () => {
    loadedByTurn.push(0);
    if (!loaded) setImmediate(nextTurn);
  };
  setImmediate(nextTurn);
  await loadAuth();
  loaded = true;
  hooks.deregister();
  const total = loadedByTurn.reduce((sum, count) => sum + count, 0);
  assert.ok(total > 100, `loaded ${total} modules`);
  assert.ok(Math.max(...loadedByTurn) < total / 2, `modules loaded by turn: ${loadedByTurn.join(', ')}`);
});
