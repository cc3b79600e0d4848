import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import * as fc from 'fast-check';
import { readGguf } from '../../src/models/gguf.ts';
import { ModelFileError, type ModelFileFault } from '../../src/models/model-file-error.ts';
import { tokenizerFamily } from '../../src/models/tokenizer-family.ts';
import {
  buildGguf,
  splitMetadata,
  TINY_METADATA,
  TINY_TENSORS,
  u32,
  u64,
  type GgufParts,
} from './gguf-builder.ts';

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-gguf-'));
});
after(() => rm(folder, { recursive: true }));

async function read(parts: GgufParts | Buffer, name = 'tiny.gguf') {
  const path = join(folder, name);
  await writeFile(path, Buffer.isBuffer(parts) ? parts : buildGguf(parts));
  return readGguf(path);
}

async function refused(parts: GgufParts | Buffer, fault: ModelFileFault, message: RegExp) {
  await assert.rejects(read(parts), (error: unknown) => {
    assert(error instanceof ModelFileError);
    assert.equal(error.fault, fault, error.message);
    assert.match(error.message, message);
    return true;
  });
}

describe('a GGUF file', () => {
  it('says what the model is', async () => {
    const info = await read({});
    assert.deepEqual(
      { ...info, path: '', files: info.files.length },
      {
        path: '',
        architecture: 'llama',
        name: 'Tiny',
        contextTokens: 256,
        chatTemplate: '{{ messages[0].content }}',
        tokenizerFamily: 'Llama3',
        bosToken: '<s>',
        eosToken: '</s>',
        addBosToken: true,
        quantization: 'Q8_0',
        fileType: 7,
        parameterCount: 128,
        // 2 layers x 2 heads x (16 + 16) numbers x 2 bytes.
        kvBytesPerToken: 256,
        layerCount: 2,
        splitCount: 1,
        files: 1,
        sizeBytes: buildGguf().length,
      },
    );
  });

  it('of version 2 reads the same', async () => {
    assert.deepEqual(await read({ version: 2 }), await read({}));
  });

  it('may count key heads by layer and give their length', async () => {
    const metadata = {
      ...TINY_METADATA,
      'llama.block_count': 3,
      'llama.attention.head_count_kv': [2, 0, 4],
      'llama.attention.key_length': 24,
      'llama.attention.value_length': 8,
    };
    assert.equal((await read({ metadata })).kvBytesPerToken, (2 + 0 + 4) * (24 + 8) * 2);
  });

  it('without a file type is named by the type of most of its weights', async () => {
    const { 'general.file_type': _, ...metadata } = TINY_METADATA;
    const tensors = [...TINY_TENSORS, { name: 'norm', dimensions: [4], type: 0, sizeBytes: 16 }];
    const info = await read({ metadata, tensors });
    assert.deepEqual([info.quantization, info.fileType, info.parameterCount], ['Q8_0', null, 132]);
  });

  it('may name special tokens before the vocabulary, and ids that are not in it', async () => {
    const { 'tokenizer.ggml.tokens': tokens = [], ...rest } = TINY_METADATA;
    const metadata = { ...rest, 'tokenizer.ggml.eos_token_id': 3, 'tokenizer.ggml.bos_token_id': 99 };
    const info = await read({ metadata: { ...metadata, 'tokenizer.ggml.tokens': tokens } });
    assert.deepEqual([info.bosToken, info.eosToken], [null, 'ü']);
  });

  it('with a vocabulary larger than the read buffer is read through', async () => {
    const tokens = Array.from({ length: 60_000 }, (_, index) => `token-${index}`);
    const info = await read({
      metadata: { ...TINY_METADATA, 'tokenizer.ggml.tokens': tokens, 'tokenizer.ggml.eos_token_id': 59_999 },
    });
    assert.equal(info.eosToken, 'token-59999');
  });
});

describe('a split model', () => {
  it('is all its parts together, read from the first', async () => {
    const names = [1, 2].map((number) => `big-0000${number}-of-00002.gguf`);
    await writeFile(join(folder, names[1] ?? ''), buildGguf({ metadata: splitMetadata(2, 2) }));
    const info = await read({ metadata: splitMetadata(1, 2), tensors: [] }, names[0]);
    assert.equal(info.splitCount, 2);
    assert.deepEqual(
      info.files,
      names.map((name) => join(folder, name)),
    );
    assert.equal(info.parameterCount, 128);
    await rm(join(folder, names[1] ?? ''));
    await assert.rejects(readGguf(join(folder, names[0] ?? '')), {
      fault: 'missing',
      message: /big-00002-of-00002/,
    });
  });

  it('is refused by a later part, which has no metadata', async () => {
    await refused(
      { metadata: { ...TINY_METADATA, ...splitMetadata(2, 2) } },
      'unsupported',
      /part 2 of 2.*first part/,
    );
  });
});

describe('a file that is no model', () => {
  it('is told apart by what it starts with', async () => {
    await refused(Buffer.from('<!doctype html><title>Sign in</title>'), 'not_a_gguf', /starts with "<!do"/);
    await refused(Buffer.alloc(0), 'not_a_gguf', /0 bytes/);
    await refused(Buffer.from('GG'), 'not_a_gguf', /2 bytes/);
  });

  it('is named when it is not there', async () => {
    await assert.rejects(readGguf(join(folder, 'none.gguf')), {
      fault: 'missing',
      message: /none\.gguf: no such file/,
    });
  });

  it('is refused in versions and byte orders that are not read', async () => {
    await refused({ version: 1 }, 'unsupported', /version 1; expected version 2 or 3/);
    await refused({ version: 4 }, 'unsupported', /version 4/);
    await refused({ version: 0x0300_0000 }, 'unsupported', /big-endian/);
  });

  it('is refused when it generates no text', async () => {
    await refused(
      { metadata: { 'general.architecture': 'clip' } },
      'unsupported',
      /no "clip\.context_length"/,
    );
  });

  it('is truncated when its tensors end behind its end', async () => {
    await refused({ cutBytes: 25 }, 'truncated', /its tensors need \d+ bytes, the file has \d+/);
  });

  it('is refused at every length it can be cut to', async () => {
    const whole = buildGguf();
    // The last tensor is padded to 32 bytes; what is missing there is missed by nobody.
    const needed = whole.length - 24;
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: needed - 1 }), async (length) => {
        await assert.rejects(read(whole.subarray(0, length)), ModelFileError);
      }),
      { numRuns: 60 },
    );
  });

  it('costs no memory with lengths and counts that are lies', async () => {
    const huge = u64(1n << 50n);
    await refused({ metadata: { long: { type: 8, bytes: huge } } }, 'truncated', /needs \d+ bytes/);
    await refused(
      { metadata: { many: { type: 9, bytes: Buffer.concat([u32(8), huge]) } } },
      'truncated',
      /needs/,
    );
    await refused(
      { metadata: { deep: { type: 9, bytes: Buffer.concat([u32(9), huge]) } } },
      'damaged',
      /arrays/,
    );
    await refused({ metadata: { odd: { type: 77, bytes: huge } } }, 'damaged', /unknown type 77/);
    await refused({ metadata: { 'tokenizer.ggml.tokens': 5 } }, 'damaged', /not an array of strings/);
    await refused({ keyCount: 1n << 63n }, 'damaged', /metadata keys/);
    await refused({ tensorCount: 1n << 40n }, 'damaged', /tensors/);
  });

  it('never fails in another way, whatever its bytes', async () => {
    const whole = buildGguf();
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.integer({ min: 4, max: whole.length - 1 }), fc.integer({ min: 0, max: 255 })), {
          minLength: 1,
          maxLength: 8,
        }),
        async (changes) => {
          const bytes = Buffer.from(whole);
          for (const [place, value] of changes) bytes[place] = value;
          await read(bytes).catch((error: unknown) => assert(error instanceof ModelFileError, String(error)));
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe('the tokenizer family', () => {
  const cases: readonly [string | null, string | null, string, string][] = [
    ['gpt2', 'llama-bpe', 'llama', 'Llama3'],
    ['llama', 'default', 'llama', 'Llama2'],
    ['gpt2', 'qwen2', 'qwen2', 'Qwen'],
    ['gpt2', 'qwen2', 'qwen3', 'Qwen3'],
    ['gpt2', 'gpt-4o', 'gpt-oss', 'GPT'],
    ['gpt2', 'gpt-4o', 'phi3', 'GPT'],
    ['gpt2', 'tekken', 'llama', 'Mistral'],
    ['llama', null, 'gemma3', 'Gemma'],
    ['gpt2', 'smollm', 'llama', 'SmolLM'],
    ['gpt2', 'deepseek-r1-qwen', 'qwen2', 'Qwen'],
    ['gpt2', 'brand-new', 'new', 'brand-new'],
    ['martian', null, 'new', 'martian'],
    [null, null, 'new', 'unknown'],
  ];
  for (const [model, pre, architecture, family] of cases) {
    it(`of ${model}, ${pre}, ${architecture} is ${family}`, () => {
      assert.equal(tokenizerFamily(model, pre, architecture), family);
    });
  }
});
