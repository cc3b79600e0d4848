import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Notes } from '../src/core/notes.ts';

test('the header of notes is printable ASCII of at most 1 KB, then a count', () => {
  const notes = new Notes();
  assert.equal(notes.header(), '');
  notes.add('größe\r\nx-evil', 'ignored (unknown field)');
  assert.equal(notes.header(), 'gr??e??x-evil ignored (unknown field)');
  for (let index = 0; index < 99; index++) notes.add(`tools[${index}]`, 'ignored (web_search)');
  assert.equal(notes.count, 100);
  const header = notes.header();
  assert.ok(header.length <= 1024, String(header.length));
  const shown = header.split(', ').length - 1;
  assert.match(header, new RegExp(`, and ${100 - shown} more$`));
});

test('the first note of a strict request is an error with its path', () => {
  assert.throws(() => new Notes(true).add('prediction', 'ignored'), {
    code: 'unsupported_parameter',
    param: 'prediction',
    message: '`prediction` would be ignored, and the request is strict.',
  });
});
