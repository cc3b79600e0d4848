import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Notes } from '../../../src/core/notes.ts';
import { read } from './samples.ts';

/** Requests that Claude Code sent, with their texts replaced. Their thinking comes from another service. */
const FOLDER = join(import.meta.dirname, 'recordings');

function recording(name: string): Record<string, unknown> {
  return JSON.parse(readFileSync(join(FOLDER, name), 'utf8')) as Record<string, unknown>;
}

const BILLING = 'system[0] left out (billing header)';
const EDITS = 'context_management ignored';
const THINKING = 'messages[2].content[0] ignored (thinking that this service did not sign for your account)';

const NOTES: Record<string, readonly string[]> = {
  'claude-code-1.json': [EDITS, BILLING],
  'claude-code-2.json': [EDITS, BILLING, THINKING],
  'claude-code-4.json': [EDITS, BILLING, THINKING],
  'claude-code-5.json': [],
  'claude-code-6.json': [EDITS, BILLING],
  'claude-code-8.json': [BILLING, 'tools[0] ignored (web_search_20250305)'],
  'claude-code-9.json': [EDITS, BILLING, THINKING],
  'claude-code-11.json': [EDITS, BILLING, THINKING],
  'claude-code-13.json': [],
  'claude-code-15.json': [EDITS, BILLING],
};

for (const name of readdirSync(FOLDER)) {
  const expected = NOTES[name] ?? ['not expected'];
  test(`${name} is accepted${expected.length > 0 ? ` with ${expected.length} notes` : ''}`, () => {
    assert.deepEqual(read(recording(name), new Notes()).notes, expected);
  });
}

test('the prompt of Claude Code is the same for requests with another billing header', () => {
  const body = recording('claude-code-1.json');
  const [first, ...system] = body['system'] as { text: string }[];
  const changed = { ...body, system: [{ ...first, text: `${first?.text} changed` }, ...system] };
  assert.deepEqual(read(changed).request, read(body).request);
});

test('Claude Code gets a deferred tool into the prompt after a result has named it', () => {
  const names = (name: string) => read(recording(name)).request.tools.map((tool) => tool.name);
  assert.equal(names('claude-code-1.json').length, 11);
  assert.ok(!names('claude-code-1.json').includes('DeferredToolPlaceholder'));
  assert.ok(names('claude-code-9.json').includes('WebFetch'));
  assert.ok(!names('claude-code-9.json').includes('DeferredToolPlaceholder'));
});
