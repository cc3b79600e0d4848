import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Outbox } from '../../../src/engine/llama/outbox.ts';
import type { GenerationEvent, TokenLogprob } from '../../../src/generation.ts';

const token = (
  choice: number,
  text: string,
  completionTokens = 1,
  logprobs: TokenLogprob[] | null = null,
): GenerationEvent => ({
  type: 'token',
  choice,
  text,
  completionTokens,
  logprobs,
});

test('a waiting reader receives each event immediately', async () => {
  const outbox = new Outbox();
  const first = outbox.next();
  outbox.push(token(0, 'a'));
  outbox.push(token(0, 'b'));
  assert.deepEqual(await first, token(0, 'a'));
  assert.deepEqual(await outbox.next(), token(0, 'b'));
});

test('a slow reader receives joined events with the complete text of each choice', async () => {
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

test('unread tokens of several choices are one event for each, in the order of their last tokens', async () => {
  const outbox = new Outbox();
  const logprob = { token: 'x', logprob: -1, bytes: [120], top: [] };
  for (let i = 1; i <= 9999; i++) outbox.push(token(i % 3, 'x', i, [logprob]));
  outbox.push({ type: 'finish', choice: 1, reason: 'stop' });
  outbox.push(token(0, 'y', 10_000));
  outbox.close();
  const events: string[] = [];
  for (let event = await outbox.next(); event !== null; event = await outbox.next()) {
    const { type, ...rest } = event;
    if (events.length > 9) assert.fail('the events were not joined');
    if (event.type !== 'token') events.push(`${type} ${JSON.stringify(rest)}`);
    else
      events.push(
        `${event.choice}: ${event.text.length} characters, ${event.logprobs?.length} log probabilities, ${event.completionTokens} tokens`,
      );
  }
  assert.deepEqual(events, [
    '1: 3333 characters, 3333 log probabilities, 9997 tokens',
    '2: 3333 characters, 3333 log probabilities, 9998 tokens',
    'finish {"choice":1,"reason":"stop"}',
    '0: 3334 characters, 3333 log probabilities, 10000 tokens',
  ]);
});

test('a failure follows the unread events, and rejects a waiting reader', async () => {
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
