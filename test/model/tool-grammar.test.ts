import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { loadBackend } from '../../src/engine/llama/native/backend.ts';
import { NativeModel } from '../../src/engine/llama/native/model.ts';
import { toolGrammar } from '../../src/engine/llama/tool-calls/tool-grammar.ts';
import { SILENT } from '../../src/support/log.ts';
import { FORMATS } from '../engine/llama/tool-calls/formats.ts';
import { tool } from '../engine/llama/tool-calls/parsing.ts';
import { VOCABULARY } from '../engine/llama/tokens.ts';

const file = process.env.SLUICE_TEST_MODEL;

describe('grammars of tool calls', { skip: file === undefined && 'SLUICE_TEST_MODEL is not set' }, () => {
  let model: NativeModel;

  before(async () => {
    const options = { gpuLayers: 0, onProgress: () => {} };
    model = await NativeModel.load(await loadBackend(SILENT), file ?? '', options);
  });

  after(() => model.dispose());

  for (const format of FORMATS) {
    it(`llama.cpp accepts the grammars of ${format.name}`, () => {
      const properties = { city: { type: 'string' }, days: { enum: [1, 2] }, where: {} };
      const strict = {
        code: { type: 'string', pattern: '^[A-Z]{2}-\\d+$' },
        name: { type: 'string', minLength: 1, maxLength: 40 },
        day: { type: 'string', format: 'date' },
        unit: { enum: ['C', 'F', '5', null] },
        note: { type: ['string', 'null'] },
        tags: { type: 'array', items: { type: 'string', maxLength: 3 } },
      };
      const tools = [
        tool('get_weather', properties, true),
        tool('get-time', properties),
        tool('now'),
        tool('book', strict, true),
      ];
      for (const target of ['call', 'output'] as const) {
        const path = (): string => 'tools';
        const options = { format, tools, parallel: true, target, tokens: VOCABULARY, path };
        assert.notEqual(model.grammar(toolGrammar(options)), null);
      }
    });
  }
});
