import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { loadBackend, type Backend } from '../../src/engine/llama/native/backend.ts';
import { NativeModel } from '../../src/engine/llama/native/model.ts';
import { PromptTokenizer } from '../../src/engine/llama/prompt/prompt-tokenizer.ts';
import { Vocabulary } from '../../src/engine/llama/prompt/vocabulary.ts';
import { SILENT } from '../../src/support/log.ts';
import { temporaryFolder } from '../harness.ts';
import { NEVER_ABORTED } from '../engine/requests.ts';
import { file, SKIP, text } from './embedded-engine.ts';

/** Pre-tokenizers of llama.cpp. Their names are as long as the model's own, so a copy of the file can name another. */
const PRE_TOKENIZERS = ['smollm', 'gpt-4o', 'tekken'];
const OWN = Buffer.from('smollm');
const VOCABULARY_SIZE = 49_152;

const UNITS = [
  ...Array.from(' \n\t\u0085\u00a0\u3000a1٣あ한яا\u0301😀。，",:(}<=-_/€²\ufffd\u{10ffff}'),
  '  ',
  '\n\n',
  '\r\n',
  'hello',
  'World',
  'HTTP',
  "'s",
  "'LL",
  '1234',
  '中文',
  'e\u0301',
  '...',
  '<|im_start|>',
  '<|endoftext|>',
  '<jupyter_start>',
];

describe('texts that are tokenized in pieces', SKIP, () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let backend: Backend;

  before(async () => {
    folder = await temporaryFolder();
    backend = await loadBackend(SILENT);
  });
  after(async () => await folder[Symbol.asyncDispose]());

  async function load(pre: string): Promise<{ model: NativeModel; vocabulary: Vocabulary }> {
    const bytes = await readFile(file ?? '');
    const key = Buffer.from('tokenizer.ggml.pre');
    const at = bytes.indexOf(OWN, bytes.indexOf(key) + key.length);
    bytes.write(pre, at, 'latin1');
    const path = join(folder.path, `${pre}.gguf`);
    await writeFile(path, bytes);
    const model = await NativeModel.load(backend, path, { gpuLayers: 0, onProgress() {} });
    return { model, vocabulary: new Vocabulary(model, VOCABULARY_SIZE) };
  }

  for (const pre of PRE_TOKENIZERS) {
    it(`have the tokens of the whole text, and cannot overflow the stack: ${pre}`, async () => {
      const { model, vocabulary } = await load(pre);
      const words = fc.array(fc.constantFrom(...UNITS), { minLength: 1, maxLength: 4 });
      const texts = words.chain((few) =>
        fc.array(fc.oneof(fc.constantFrom(' ', 'a', ...few), fc.constantFrom(...UNITS)), {
          minLength: 30,
          maxLength: 80,
        }),
      );
      let cuts = 0;
      fc.assert(
        fc.property(texts, fc.integer({ min: 1, max: 12 }), fc.boolean(), (parts, length, special) => {
          const whole = parts.join('');
          const pieces = [...vocabulary.cuts.pieces(whole, length)];
          cuts += pieces.length - 1;
          const tokens = pieces.flatMap((piece) => [...model.tokenize(piece, special)]);
          assert.deepEqual(tokens, [...model.tokenize(whole, special)], JSON.stringify(pieces));
        }),
        { numRuns: 100 },
      );
      assert.ok(cuts > 0);
      const prompts = new PromptTokenizer(
        { model, vocabulary, template: null, info: { preTokenizer: pre, contextTokens: 1_000_000 } },
        1_000_000,
        SILENT,
      );
      for (const run of [' ', '=', 'A', '中', '1'].map((unit) => unit.repeat(65_000))) {
        await assert.rejects(prompts.tokenize(text(`Tidy this:${run}end`), NEVER_ABORTED), {
          code: 'invalid_value',
          param: 'prompt',
        });
      }
      await model.dispose();
    });
  }
});
