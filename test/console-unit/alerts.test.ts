import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  deliveryOf,
  messageState,
  TYPE_LABELS,
  typeLabel,
} from '../../console/src/pages/alerts/alert-texts.ts';
import { ALERT_TYPES } from '../../src/config/alerts.ts';

type Message = Parameters<typeof messageState>[0];

function message(state: Message['state'], error: string | null = null): Message {
  return { event: 'firing', channel: 'webhook:a', state, attempts: 1, sent_at: null, error };
}

test('every type of alerts has a label, and unknown types are shown by their name', () => {
  assert.deepEqual(Object.keys(TYPE_LABELS), [...ALERT_TYPES]);
  assert.equal(typeLabel('of_a_newer_version'), 'of_a_newer_version');
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
