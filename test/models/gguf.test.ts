import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { readGguf, tokenizerFamily } from '../../src/models/gguf.ts';
import { ModelFileError, type ModelFileFault } from '../../src/models/errors.ts';
import {
  buildGguf,
  f32Field,
  splitMetadata,
  TINY_METADATA,
  TINY_TENSORS,
  u32,
  u64,
  type GgufField,
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

async function rejects(parts: GgufParts | Buffer, fault: ModelFileFault, message: RegExp) {
  await assert.rejects(read(parts), (error: unknown) => {
    assert(error instanceof ModelFileError);
    assert.equal(error.fault, fault, error.message);
    assert.match(error.message, message);
    return true;
  });
}

describe('a GGUF file', () => {
  it('tells whether and how the model computes embeddings', async () => {
    const embedding = async (architecture: string, pooling?: number) => {
      const metadata: Record<string, GgufField> = { ...TINY_METADATA, 'general.architecture': architecture };
      for (const key of ['block_count', 'context_length', 'embedding_length', 'attention.head_count'])
        metadata[`${architecture}.${key}`] = 4;
      if (pooling !== undefined) metadata[`${architecture}.pooling_type`] = pooling;
      const info = await read({ metadata });
      return [info.embedding, info.kvBytesPerToken > 0];
    };
    assert.deepEqual(await embedding('llama'), [null, true]);
    assert.deepEqual(await embedding('llama', 0), [null, true]);
    assert.deepEqual(await embedding('qwen3', 3), [{ pooling: 'last', causal: true }, true]);
    assert.deepEqual(await embedding('bert', 1), [{ pooling: 'mean', causal: false }, false]);
    assert.deepEqual(await embedding('nomic-bert-moe', 2), [{ pooling: 'cls', causal: false }, false]);
    assert.deepEqual(await embedding('gemma-embedding'), [{ pooling: 'none', causal: false }, false]);
    assert.deepEqual(await embedding('bert', 9), [{ pooling: 'none', causal: false }, false]);
  });

  it('has the metadata of the model', async () => {
    const info = await read({});
    assert.deepEqual(
      { ...info, path: '', files: info.files.length },
      {
        path: '',
        architecture: 'llama',
        license: null,
        contextTokens: 256,
        chatTemplate: '{{ messages[0].content }}',
        tokenizerFamily: 'Llama3',
        preTokenizer: 'llama-bpe',
        bosToken: '<s>',
        eosToken: '</s>',
        addSeparator: null,
        rerankTemplate: null,
        quantization: 'Q8_0',
        // 2 layers x 2 heads x (16 + 16) numbers x 2 bytes.
        kvBytesPerToken: 256,
        slidingWindow: null,
        stateBytesPerSlot: 0,
        vocabularySize: 4,
        embeddingLength: 64,
        embedding: null,
        sampling: null,
        layerCount: 2,
        files: 1,
        sizeBytes: buildGguf().length,
      },
    );
  });

  it('may recommend sampling; values that a request cannot have are ignored', async () => {
    const metadata = {
      ...TINY_METADATA,
      'general.sampling.temp': f32Field(0.6),
      'general.sampling.top_k': 20,
      'general.sampling.top_p': f32Field(0),
    };
    assert.deepEqual((await read({ metadata })).sampling, { temperature: 0.6, topK: 20 });
  });

  it('of version 2 is read the same way', async () => {
    assert.deepEqual(await read({ version: 2 }), await read({}));
  });

  it('may have the number of key heads by layer, and their length', async () => {
    const metadata = {
      ...TINY_METADATA,
      'llama.block_count': 3,
      'llama.attention.head_count_kv': [2, 0, 4],
      'llama.attention.key_length': 24,
      'llama.attention.value_length': 8,
    };
    assert.equal((await read({ metadata })).kvBytesPerToken, (2 + 0 + 4) * (24 + 8) * 2);
  });

  it('may have layers with a recurrent state instead of attention', async () => {
    const cache = async (metadata: Record<string, GgufField>): Promise<number[]> => {
      const info = await read({ metadata: { ...TINY_METADATA, 'llama.block_count': 4, ...metadata } });
      return [info.kvBytesPerToken, info.stateBytesPerSlot];
    };
    const mamba = { 'llama.ssm.conv_kernel': 4, 'llama.ssm.inner_size': 128, 'llama.ssm.state_size': 16 };
    const mambaState = (3 * 128 + 128 * 16) * 4;
    const attention = 2 * (16 + 16) * 2;
    // All layers have both, as in Falcon H1.
    assert.deepEqual(await cache(mamba), [4 * attention, 4 * mambaState]);
    assert.deepEqual(await cache({ ...mamba, 'llama.attention.head_count_kv': 0 }), [0, 4 * mambaState]);
    assert.deepEqual(await cache({ ...mamba, 'llama.attention.head_count_kv': [0, 2, 0, 0] }), [
      attention,
      3 * mambaState,
    ]);
    assert.deepEqual(
      await cache({ ...mamba, 'llama.full_attention_interval': 4, 'llama.ssm.group_count': 2 }),
      [attention, 3 * (mambaState + 3 * 2 * 2 * 16 * 4)],
    );
    const lfm2 = { 'llama.shortconv.l_cache': 3, 'llama.attention.head_count_kv': [0, 2, 0, 2] };
    assert.deepEqual(await cache(lfm2), [2 * attention, 2 * (2 * 64) * 4]);
    const rwkv = { 'llama.wkv.head_size': 32, 'llama.attention.head_count_kv': 0 };
    assert.deepEqual(await cache(rwkv), [0, 4 * 64 * (2 + 32) * 4]);
    const kimi = {
      'llama.ssm.conv_kernel': 4,
      'llama.kda.head_dim': 16,
      'llama.attention.head_count_kv': [0, 2, 0, 0],
    };
    assert.deepEqual(await cache(kimi), [attention, 3 * 4 * 16 * (3 * 3 + 16) * 4]);
  });

  it('without a file type has the quantization of most of its weights', async () => {
    const { 'general.file_type': _, ...metadata } = TINY_METADATA;
    const tensors = [...TINY_TENSORS, { name: 'norm', dimensions: [4], type: 0, sizeBytes: 16 }];
    assert.equal((await read({ metadata, tensors })).quantization, 'Q8_0');
  });

  it('may have special token IDs before the vocabulary, and outside it', async () => {
    const { 'tokenizer.ggml.tokens': tokens = [], ...rest } = TINY_METADATA;
    const metadata = { ...rest, 'tokenizer.ggml.eos_token_id': 3, 'tokenizer.ggml.bos_token_id': 99 };
    const info = await read({ metadata: { ...metadata, 'tokenizer.ggml.tokens': tokens } });
    assert.deepEqual([info.bosToken, info.eosToken], [null, 'ü']);
  });

  it('may have a vocabulary larger than the read buffer', async () => {
    const tokens = Array.from({ length: 60_000 }, (_, index) => `token-${index}`);
    const info = await read({
      metadata: { ...TINY_METADATA, 'tokenizer.ggml.tokens': tokens, 'tokenizer.ggml.eos_token_id': 59_999 },
    });
    assert.equal(info.eosToken, 'token-59999');
  });
});

describe('a split model', () => {
  it('is read from its first file, with totals of all files', async () => {
    const names = [1, 2].map((number) => `big-0000${number}-of-00002.gguf`);
    await writeFile(join(folder, names[1] ?? ''), buildGguf({ metadata: splitMetadata(2, 2) }));
    const info = await read({ metadata: splitMetadata(1, 2), tensors: [] }, names[0]);
    assert.deepEqual(
      info.files,
      names.map((name) => join(folder, name)),
    );
    assert.deepEqual([info.quantization, info.sizeBytes > buildGguf().length], ['Q8_0', true]);
    await rm(join(folder, names[1] ?? ''));
    await assert.rejects(readGguf(join(folder, names[0] ?? '')), {
      fault: 'missing',
      message: /big-00002-of-00002/,
    });
  });

  it('cannot be read from a file other than the first', async () => {
    await rejects(
      { metadata: { ...TINY_METADATA, ...splitMetadata(2, 2) } },
      'unsupported',
      /part 2 of 2.*first part/,
    );
  });
});

describe('a file that is not a model', () => {
  it('is refused by its first bytes', async () => {
    await rejects(Buffer.from('<!doctype html><title>Sign in</title>'), 'not_a_gguf', /starts with "<!do"/);
    await rejects(Buffer.alloc(0), 'not_a_gguf', /0 bytes/);
    await rejects(Buffer.from('GG'), 'not_a_gguf', /2 bytes/);
  });

  it('is named in the error if it does not exist', async () => {
    await assert.rejects(readGguf(join(folder, 'none.gguf')), {
      fault: 'missing',
      message: /none\.gguf: no such file/,
    });
  });

  it('is refused in unsupported versions and byte orders', async () => {
    await rejects({ version: 1 }, 'unsupported', /version 1; expected version 2 or 3/);
    await rejects({ version: 4 }, 'unsupported', /version 4/);
    await rejects({ version: 0x0300_0000 }, 'unsupported', /big-endian/);
  });

  it('is refused if it does not generate text', async () => {
    await rejects(
      { metadata: { 'general.architecture': 'clip' } },
      'unsupported',
      /no "clip\.context_length"/,
    );
  });

  it('is refused as truncated if it is shorter than its tensors', async () => {
    await rejects({ cutBytes: 25 }, 'truncated', /its tensors need \d+ bytes, the file has \d+/);
  });

  it('is refused at every truncated length', async () => {
    const whole = buildGguf();
    // The last tensor is padded to 32 bytes, and the padding may be missing.
    const needed = whole.length - 24;
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: needed - 1 }), async (length) => {
        await assert.rejects(read(whole.subarray(0, length)), ModelFileError);
      }),
      { numRuns: 60 },
    );
  });

  it('does not allocate memory for wrong lengths and counts', async () => {
    const huge = u64(1n << 50n);
    await rejects({ metadata: { long: { type: 8, bytes: huge } } }, 'truncated', /needs \d+ bytes/);
    await rejects(
      { metadata: { many: { type: 9, bytes: Buffer.concat([u32(8), huge]) } } },
      'truncated',
      /needs/,
    );
    await rejects(
      { metadata: { deep: { type: 9, bytes: Buffer.concat([u32(9), huge]) } } },
      'damaged',
      /arrays/,
    );
    await rejects({ metadata: { odd: { type: 77, bytes: huge } } }, 'damaged', /unknown type 77/);
    await rejects({ metadata: { 'tokenizer.ggml.tokens': 5 } }, 'damaged', /not an array of strings/);
    await rejects({ keyCount: 1n << 63n }, 'damaged', /metadata keys/);
    await rejects({ tensorCount: 1n << 40n }, 'damaged', /tensors/);
  });

  it('never causes an error other than ModelFileError', async () => {
    const whole = buildGguf();
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.integer({ min: 4, max: whole.length - 1 }), fc.integer({ min: 0, max: 255 })), {
          minLength: 1,
          maxLength: 8,
        }),
        async (changes) => {
          const bytes = Buffer.from(whole);
          for (const [position, value] of changes) bytes[position] = value;
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
    it(`of the encoder ${model}, the pre-tokenizer ${pre} and the architecture ${architecture} is ${family}`, () => {
      assert.equal(tokenizerFamily(model, pre, architecture), family);
    });
  }
});
