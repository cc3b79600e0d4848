import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Outbox } from '../../../src/engine/llama/outbox.ts';
import type { GenerationEvent } from '../../../src/generation.ts';

const token = (choice: number, text: string, completionTokens = 1): GenerationEvent => ({
  type: 'token',
  choice,
  text,
  completionTokens,
  logprobs: null,
});

test('a reader that waits gets each event as it comes', async () => {
  const outbox = new Outbox();
  const first = outbox.next();
  outbox.push(token(0, 'a'));
  outbox.push(token(0, 'b'));
  assert.deepEqual(await first, token(0, 'a'));
  assert.deepEqual(await outbox.next(), token(0, 'b'));
});

test('what a slow reader left unread comes joined, with nothing lost and the order of choices kept', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ choice: fc.nat(2), text: fc.string(), read: fc.boolean() })),
      async (writes) => {
        const outbox = new Outbox();
        const texts = ['', '', ''];
        let unread = 0;
        for (const [i, { choice, text, read }] of writes.entries()) {
          outbox.push(token(choice, text, i));
          unread++;
          if (!read) continue;
          const event = await outbox.next();
          if (event?.type === 'token') texts[event.choice] += event.text;
          unread--;
        }
        outbox.close();
        for (let event = await outbox.next(); event !== null; event = await outbox.next()) {
          if (event.type === 'token') texts[event.choice] += event.text;
          unread--;
        }
        assert(unread >= 0);
        for (const choice of [0, 1, 2])
          assert.equal(
            texts[choice],
            writes.flatMap((write) => (write.choice === choice ? [write.text] : [])).join(''),
          );
      },
    ),
  );
});

test('a thousand unread tokens of one choice are one event', async () => {
  const outbox = new Outbox();
  for (let i = 1; i <= 1000; i++) outbox.push(token(0, 'x', i));
  outbox.close();
  const event = await outbox.next();
  assert.deepEqual(event, token(0, 'x'.repeat(1000), 1000));
  assert.equal(await outbox.next(), null);
});

test('a failure comes after what was said before it, and ends a reader that waits', async () => {
  const outbox = new Outbox();
  outbox.push(token(0, 'a'));
  outbox.fail(new Error('gone'));
  outbox.push(token(0, 'too late'));
  assert.deepEqual(await outbox.next(), token(0, 'a'));
  await assert.rejects(outbox.next(), /gone/);
  const waiting = new Outbox();
  const next = waiting.next();
  waiting.fail(new Error('gone'));
  await assert.rejects(next, /gone/);
});
