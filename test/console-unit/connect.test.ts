/** The configurations of agents in the console are those of docs/agents.md, which are tested. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AGENTS } from '../../console/src/connect/agents.ts';
import { blocksOf, readPage } from '../docs/markdown.ts';

test('agents are configured as in the guide', () => {
  const guide = readPage('docs/agents.md');
  const input = { baseUrl: 'http://127.0.0.1:8080', model: 'Qwen/Qwen3-4B', contextTokens: 32_768 };
  const blocks = ['toml', 'sh', 'json'].flatMap((language) => blocksOf(guide, language)).map(normalized);
  assert.ok(AGENTS.length > 2);
  for (const agent of AGENTS) assert.ok(blocks.includes(normalized(agent.text(input))), agent.name);
});

/** Removes comments, and the formatting of JSON. */
function normalized(code: string): string {
  return code.startsWith('{') ? JSON.stringify(JSON.parse(code)) : code.replaceAll(/ #.*$/gm, '').trim();
}
