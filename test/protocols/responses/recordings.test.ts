import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Notes } from '../../../src/core/notes.ts';
import { read } from './samples.ts';

/** Requests that agents and libraries sent, with their texts replaced. */
const FOLDER = join(import.meta.dirname, 'recordings');

function recording(name: string): Record<string, unknown> {
  return JSON.parse(readFileSync(join(FOLDER, name), 'utf8')) as Record<string, unknown>;
}

/** The second message of developers comes before the conversation. */
const SUMMARY = 'reasoning.summary ignored';
const VERBOSITY = 'text.verbosity ignored';
const WEB = (index: number) => `tools[${index}] ignored (web_search)`;
const SEARCH = (index: number) => `tools[${index}] ignored (tool_search)`;

const NOTES: Record<string, readonly string[]> = {
  'codex-1.json': [WEB(8), SUMMARY],
  'codex-2.json': [WEB(8), SUMMARY],
  'codex-4.json': [WEB(8), SUMMARY],
  'codex-5.json': [WEB(8), SUMMARY],
  'codex-6.json': [WEB(8), SUMMARY],
  'codex-8.json': [WEB(12), SUMMARY],
  'codex-10.json': [VERBOSITY, SEARCH(8), WEB(9)],
  'codex-11.json': [VERBOSITY, SEARCH(8), WEB(9)],
  'codex-12.json': [SUMMARY],
  'codex-14.json': [WEB(8), SUMMARY],
  'codex-15.json': [VERBOSITY, SEARCH(11), WEB(12)],
  'langchain-openai-responses-1.json': [SUMMARY],
  'langchain-openai-responses-2.json': [SUMMARY],
};

for (const name of readdirSync(FOLDER)) {
  const expected = NOTES[name] ?? [];
  test(`${name} is accepted${expected.length > 0 ? ` with ${expected.length} notes` : ''}`, () => {
    assert.deepEqual(read(recording(name), new Notes()).notes.sort(), [...expected].sort());
  });
}
