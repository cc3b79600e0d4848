import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { LlamaEngine } from '../../src/engine/llama/engine.ts';
import type { Message } from '../../src/core/generation.ts';
import { openLog } from '../../src/support/log.ts';
import { temporaryFolder } from '../harness.ts';
import { assertRefused, chat, complete, copyModel, SKIP } from './embedded-engine.ts';
import { assertCall, callsOf, OFF } from './lamp-tools.ts';

/** Refuses an answer as the first message, and fails with more than three messages. */
const TEMPLATE = `{% for m in messages %}{% if m.role == 'assistant' and loop.first %}{{ raise_exception('Misplaced: ' + m.content) }}{% endif %}{% if loop.index > 3 %}{{ m.content | nope }}{% endif %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}`;

describe('a model whose chat template throws', SKIP, () => {
  let engine: LlamaEngine;
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  const lines: string[] = [];

  before(async () => {
    folder = await temporaryFolder();
    const path = join(folder.path, 'model.gguf');
    await copyModel(path, TEMPLATE);
    engine = await LlamaEngine.load(
      { file: path, slots: 1, contextTokens: 512, threads: 1, gpuLayers: 'auto' },
      { onProgress() {}, log: openLog('info', { write: (line) => void lines.push(line) }) },
    );
  });

  after(async () => {
    await engine[Symbol.asyncDispose]();
    await folder[Symbol.asyncDispose]();
  });

  const user: Message = { role: 'user', content: 'Turn it off.' };
  const system: Message = { role: 'system', content: 'Be brief.' };
  const answer: Message = { role: 'assistant', content: 'Done.', reasoning: null, toolCalls: [] };
  const warnings = () => lines.filter((line) => line.includes('"level":"warn"'));

  test('refuses a conversation, returns the message of the template as the error, and logs nothing', async () => {
    const request = chat('', { messages: [answer, user] });
    const error = await assertRefused(engine, request, 'invalid_value', 'messages');
    assert.equal(error.message, 'Misplaced: Done.');
    assert.deepEqual(warnings(), []);
  });

  test('refuses a conversation that the template cannot render, and logs the reason once', async () => {
    const request = chat('', { messages: [user, answer, user, answer] });
    for (let turn = 0; turn < 2; turn++) {
      const error = await assertRefused(engine, request, 'invalid_value', 'messages');
      assert.match(error.message, /cannot render these messages/);
    }
    assert.equal(warnings().length, 1);
    assert.match(warnings()[0] ?? '', /filter: nope".*the chat template failed/);
  });

  test('continues to answer other conversations, with calls', async () => {
    const messages = [system, user];
    const toolChoice = { type: 'required' } as const;
    const fields = { messages, tools: [OFF], toolChoice, parallelToolCalls: false, maxTokens: 120 };
    const { events, reasons } = await complete(engine, chat('', fields));
    const [call] = callsOf(events);
    assert.ok(call);
    assertCall(call, [OFF]);
    assert.deepEqual(reasons, ['tool_calls']);
  });
});
