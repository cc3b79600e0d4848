import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deliveryOf, messageState, typeLabel } from '../../console/src/pages/alerts/alert-texts.ts';

type Message = Parameters<typeof messageState>[0];

function message(state: Message['state'], error: string | null = null): Message {
  return { event: 'firing', channel: 'webhook:a', state, attempts: 1, sent_at: null, error };
}

test('the label of a type is its name, unless there is a clearer one', () => {
  assert.deepEqual(['disk_low', 'budget_100', 'of_a_newer_version'].map(typeLabel), [
    'Disk low',
    'Budget used up',
    'Of a newer version',
  ]);
});

test('the worst state of the messages of an alert is shown', () => {
  const word = (...messages: Message[]) => deliveryOf({ messages }).word;
  assert.equal(word(), 'No channel');
  assert.equal(word(message('sent'), message('failed', 'x'), message('pending', 'x')), 'Not sent');
  assert.equal(word(message('sent'), message('pending', 'x')), 'Retrying');
  assert.equal(word(message('sent'), message('pending')), 'Sending');
  assert.equal(word(message('sent'), message('silenced')), 'Sent');
  assert.equal(word(message('silenced')), 'Silenced');
  assert.deepEqual(
    (['pending', 'sent', 'failed', 'silenced'] as const).map((state) => messageState(message(state)).word),
    ['Waiting', 'Sent', 'Not sent', 'Silenced'],
  );
  assert.equal(messageState(message('pending', 'x')).word, 'Retrying');
});
