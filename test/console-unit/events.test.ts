import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { EventReader } from '../../console/src/api/events.ts';

/** Parses a stream that arrives in these pieces. */
function read(...pieces: string[]): string[] {
  const reader = new EventReader();
  return pieces.flatMap((piece) => reader.push(piece));
}

const STREAM = [
  ': keep-alive\n\n',
  'data: {"text":"one"}\n\n',
  'data:{"text":"zwölf Ärzte 🥼"}\r\n\r\n',
  'event: message\r\ndata: first line\r\ndata: second line\r\nid: 7\r\n\r\n',
  'data: by CR\r\r',
  'data\ndata: after an empty line\n\n',
  'retry: 10\n\n',
  ':\ndata:  two spaces\n\n\n\n',
  'data: [DONE]\n\n',
].join('');

const EVENTS = [
  '{"text":"one"}',
  '{"text":"zwölf Ärzte 🥼"}',
  'first line\nsecond line',
  'by CR',
  '\nafter an empty line',
  ' two spaces',
  '[DONE]',
];

test('the events are the same wherever the stream is split in two', () => {
  for (let cut = 0; cut <= STREAM.length; cut++) {
    assert.deepEqual(read(STREAM.slice(0, cut), STREAM.slice(cut)), EVENTS, `cut at ${cut}`);
  }
});

test('the events are the same when each character is a piece, with empty pieces between', () => {
  assert.deepEqual(read(...STREAM.split('').flatMap((character) => [character, ''])), EVENTS);
});

test('the events are the same however often the stream is split', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(STREAM.length), { maxLength: 20 }), (cuts) => {
      const at = [0, ...cuts.sort((a, b) => a - b), STREAM.length];
      assert.deepEqual(read(...at.slice(1).map((end, index) => STREAM.slice(at[index], end))), EVENTS);
    }),
  );
});

test('an event is returned as soon as its empty line arrives', () => {
  const reader = new EventReader();
  assert.deepEqual(reader.push('data: a\n'), []);
  assert.deepEqual(reader.push('\n'), ['a']);
  assert.deepEqual(reader.push('data: b\r\n\r'), ['b']);
  assert.deepEqual(reader.push('\n'), []);
  assert.deepEqual(reader.push('data: c\r\n\r\n'), ['c']);
});

test('an incomplete last event is ignored', () => {
  assert.deepEqual(read('data: whole\n\ndata: half\n'), ['whole']);
});
