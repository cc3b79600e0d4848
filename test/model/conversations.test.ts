import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, mock, test } from 'node:test';
import { ConversationStore } from '../../src/engine/llama/conversations/conversation-store.ts';
import type { LlamaEngine } from '../../src/engine/llama/engine.ts';
import type { LlamaOptions } from '../../src/engine/llama/load-model.ts';
import { temporaryFolder } from '../harness.ts';
import { CACHE_MODELS } from './cache-models.ts';
import { always, complete, type Completion, loadEngine, text, until } from './embedded-engine.ts';
import { writeRandomModel } from './random-models.ts';

/** Otherwise, the number of files would depend on how long an engine is idle between two requests. */
const saveAhead = mock.method(ConversationStore.prototype, 'isQuickToSave', () => false);

// Nor do the speeds of the machine decide what is saved and loaded: computing takes forever. Unit tests set other speeds.
mock.method(ConversationStore.prototype, 'find', withoutSpeed('find'));
mock.method(ConversationStore.prototype, 'isWorthSaving', withoutSpeed('isWorthSaving'));

/** Returns the method, with the time to compute a token, its fourth parameter, unknown. */
function withoutSpeed<Name extends 'find' | 'isWorthSaving'>(name: Name) {
  const original = Reflect.get(ConversationStore.prototype, name);
  return function (this: ConversationStore, ...args: Parameters<ConversationStore[Name]>): unknown {
    return Reflect.apply(original, this, args.with(3, null));
  };
}

const WORDS = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'];

/** Words of more tokens than the shortest conversation that is saved, for models with one token per byte. */
const LONG = 80;

/** Returns a prompt of some hundred tokens, which differs from others at its start. */
const conversation = (name: string, words = LONG): string =>
  `${name}: ${Array.from({ length: words }, (_, i) => WORDS[i % WORDS.length]).join(' ')}`;

interface Folder extends AsyncDisposable {
  path: string;
}

/** Loads an engine with one slot, which keeps conversations in `folder`. */
const open = (
  folder: Folder,
  options: Partial<LlamaOptions>,
  { keep = false, bytes = 1_000_000_000 } = {},
): Promise<LlamaEngine> => {
  const directory = join(folder.path, 'conversations');
  const conversations = { bytes, directory, diskDirectory: directory, keep, maxPauseMs: 10_000 };
  return loadEngine({ slots: 1, contextTokens: 1536, conversations, ...options });
};

/** Generates the same tokens for each prompt. Their probabilities depend on the whole prompt. */
const generate = (
  engine: LlamaEngine,
  prompt: string,
  cacheScope: string | null = 'account',
  token = 70,
): Promise<Completion> =>
  complete(engine, text(prompt, { cacheScope, maxTokens: 3, logprobs: 0, sampling: always(token) }));

function gauges(engine: LlamaEngine) {
  const { conversations } = engine.health();
  assert(conversations);
  return conversations;
}

/** Returns the files of all conversations below the folder. */
async function statesIn(folder: Folder): Promise<string[]> {
  const names = await readdir(folder.path, { recursive: true });
  return names.filter((name) => name.endsWith('.state')).map((name) => join(folder.path, name));
}

for (const model of CACHE_MODELS)
  describe(`a conversation that lost its slot, with ${model.name}`, model.options, () => {
    test('is loaded when it returns, and continues as if it was computed again', async () => {
      await using folder = await temporaryFolder();
      await using engine = await open(folder, { file: model.file(folder.path) });
      const long = conversation('A', model.storedWords);
      const first = await generate(engine, long, 'account', model.token);
      await generate(engine, conversation('B', 1), 'account', model.token);
      const again = `${long}${first.texts[0]} and then`;
      const returned = await generate(engine, again, 'account', model.token);
      assert(returned.usage.cachedTokens >= first.usage.promptTokens, `${returned.usage.cachedTokens}`);
      assert.equal(gauges(engine).loads, 1);
      await isAsAlone(engine, again, returned);
    });

    /** Asserts that a prompt has the same probabilities when it is computed without any cached tokens. */
    async function isAsAlone(engine: LlamaEngine, prompt: string, cached: Completion): Promise<void> {
      const alone = await generate(engine, prompt, null, model.token);
      assert.equal(alone.usage.cachedTokens, 0);
      for (const [at, { logprob }] of cached.logprobs.entries()) {
        const difference = Math.abs(logprob - (alone.logprobs[at]?.logprob ?? Infinity));
        assert(difference < model.tolerance, `${difference}`);
      }
    }
  });

for (const [name, trims] of [
  ['qwen3', true],
  ['gemma3', false],
  ['mamba', false],
  ['lfm2', false],
] as const)
  test(`a part of a conversation is ${trims ? 'used' : 'not used'} with the cache of ${name}, loaded and later`, async () => {
    await using folder = await temporaryFolder();
    const file = join(folder.path, 'random.gguf');
    writeRandomModel(name, file);
    await using engine = await open(folder, { file });
    const first = await generate(engine, conversation('A'));
    await generate(engine, conversation('B', 1));
    const assertSame = async (prompt: string) => {
      const cached = await generate(engine, prompt);
      assert.equal(cached.usage.cachedTokens > 0, trims);
      const alone = await generate(engine, prompt, null);
      for (const [at, { logprob }] of cached.logprobs.entries())
        assert(Math.abs(logprob - (alone.logprobs[at]?.logprob ?? Infinity)) < 0.03);
    };
    await assertSame(conversation('A', LONG - 3));
    const returned = `${conversation('A')}${first.texts[0]} and`;
    assert((await generate(engine, returned)).usage.cachedTokens >= first.usage.promptTokens);
    // Now it is in the slot.
    await assertSame(conversation('A', LONG - 6));
  });

for (const [slots, loads] of [
  [1, 1],
  [2, 0],
] as const)
  test(`conversations with the same long start keep the rest, with ${slots === 1 ? 'one slot' : 'two slots'}`, async () => {
    await using folder = await temporaryFolder();
    const file = join(folder.path, 'random.gguf');
    writeRandomModel('qwen3', file);
    await using engine = await open(folder, { file, slots });
    const start = conversation('the same start');
    const ask = async (rest: string) => generate(engine, `${start}. ${conversation(rest, 60)}`);
    const first = await ask('A');
    assert((await ask('B')).usage.cachedTokens > first.usage.promptTokens / 2);
    const returned = await generate(engine, `${start}. ${conversation('A', 60)}${first.texts[0]} and`);
    assert(returned.usage.cachedTokens >= first.usage.promptTokens, `${returned.usage.cachedTokens}`);
    assert.equal(gauges(engine).loads, loads);
  });

test('a conversation is loaded after one in the slot that has nearly all of it', async () => {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'random.gguf');
  writeRandomModel('qwen3', file);
  await using engine = await open(folder, { file });
  const start = conversation('the same start');
  const long = `${start}. ${conversation('A', 40)}`;
  const first = await generate(engine, long);
  await generate(engine, conversation('B'));
  // When this one is saved, it would replace the first one.
  await generate(engine, `${start}. ${conversation('C', 20)}`);
  const returned = await generate(engine, `${long}${first.texts[0]} and`);
  assert(returned.usage.cachedTokens >= first.usage.promptTokens, `${returned.usage.cachedTokens}`);
});

describe('conversations in files', () => {
  let models: Folder;
  let file: string;
  let folder: Folder;

  before(async () => {
    models = await temporaryFolder();
    file = join(models.path, 'random.gguf');
    writeRandomModel('mamba', file);
  });

  after(() => models[Symbol.asyncDispose]());

  /** Runs a test with an engine and an empty folder. */
  const withEngine = (
    name: string,
    run: (engine: LlamaEngine) => Promise<void>,
    options: { keep?: boolean; bytes?: number } = {},
  ): void => {
    test(name, async () => {
      folder = await temporaryFolder();
      await using _ = folder;
      await using engine = await open(folder, { file }, options);
      await run(engine);
    });
  };

  /** Returns the cached tokens of a conversation that returns with another question. */
  const cachedOf = async (engine: LlamaEngine, name: string, first: Completion, scope?: string) =>
    (await generate(engine, `${conversation(name)}${first.texts[0]} and`, scope)).usage.cachedTokens;

  withEngine('only the user of the service can read them', async (engine) => {
    await generate(engine, conversation('A'));
    await generate(engine, conversation('B'));
    const [state = ''] = await statesIn(folder);
    assert.equal((await stat(state)).mode & 0o777, 0o600);
    assert.equal((await stat(join(folder.path, 'conversations'))).mode & 0o777, 0o700);
  });

  withEngine('another account never gets them', async (engine) => {
    const first = await generate(engine, conversation('A'), 'one');
    await generate(engine, conversation('B'), 'one');
    assert.equal(await cachedOf(engine, 'A', first, 'other'), 0);
    assert((await cachedOf(engine, 'A', first, 'one')) > 0);
  });

  withEngine('a request that shares nothing leaves none', async (engine) => {
    await generate(engine, conversation('A'), null);
    await generate(engine, conversation('B'), null);
    assert.deepEqual(await statesIn(folder), []);
  });

  withEngine('a file that was cut short is computed again and deleted', async (engine) => {
    const first = await generate(engine, conversation('A'));
    await generate(engine, conversation('B'));
    const [state = ''] = await statesIn(folder);
    await truncate(state, 1000);
    assert.equal(await cachedOf(engine, 'A', first), 0);
    assert(!(await statesIn(folder)).includes(state));
    assert.equal(gauges(engine).loads, 0);
  });

  withEngine('a damaged file of the right size is computed again', async (engine) => {
    const first = await generate(engine, conversation('A'));
    await generate(engine, conversation('B'));
    const [state = ''] = await statesIn(folder);
    await writeFile(state, Buffer.alloc((await stat(state)).size, 7));
    assert.equal(await cachedOf(engine, 'A', first), 0);
    await generate(engine, conversation('C'));
  });

  withEngine('a directory that was deleted costs only time', async (engine) => {
    const first = await generate(engine, conversation('A'));
    await rm(join(folder.path, 'conversations'), { recursive: true });
    await generate(engine, conversation('B'));
    assert.equal(await cachedOf(engine, 'A', first), 0);
    assert.equal(gauges(engine).entries, 0);
  });

  withEngine('those of a closed account are deleted, in slots and in files', async (engine) => {
    const first = await generate(engine, conversation('A'), 'closed');
    await generate(engine, conversation('B'), 'closed');
    const last = await generate(engine, conversation('C'), 'closed');
    engine.forget('closed');
    await until(() => gauges(engine).entries === 0);
    assert.equal(await cachedOf(engine, 'C', last, 'closed'), 0);
    assert.equal(await cachedOf(engine, 'A', first, 'closed'), 0);
  });

  withEngine('an account that is closed while it generates leaves nothing', async (engine) => {
    const first = await generate(engine, conversation('A'), 'closed');
    await generate(engine, conversation('B'), 'closed');
    const returns = `${conversation('A')}${first.texts[0]} and`;
    for await (const { type } of await engine.generate(
      text(returns, { cacheScope: 'closed', maxTokens: 20, sampling: always(70) }),
      new AbortController().signal,
    ))
      if (type === 'started') engine.forget('closed');
    await generate(engine, conversation('C'), 'other');
    assert.equal(await cachedOf(engine, 'A', first, 'closed'), 0);
    assert.equal(gauges(engine).entries, 1, 'only that of the other account');
  });

  withEngine('a request that waits while its account is closed leaves nothing', async (engine) => {
    const waiting: Promise<Completion>[] = [];
    for await (const { type } of await engine.generate(
      text(conversation('A'), { cacheScope: 'closed', maxTokens: 50, sampling: always(70) }),
      new AbortController().signal,
    )) {
      if (type === 'started') waiting.push(generate(engine, conversation('B'), 'closed'));
      else if (engine.health().queued !== 0) engine.forget('closed');
    }
    const [first] = await Promise.all(waiting);
    assert(first);
    assert.equal(await cachedOf(engine, 'B', first, 'closed'), 0);
    assert.equal(gauges(engine).saves, 0);
  });

  test('one whose start is in another slot is saved if that slot cannot be trimmed', async () => {
    await using other = await temporaryFolder();
    await using engine = await open(other, { file, slots: 2 });
    const start = conversation('the same start');
    const more = ' and more'.repeat(40);
    const first = await generate(engine, `${start} A${more}`);
    await generate(engine, `${start} B`);
    await generate(engine, conversation('C'));
    const { cachedTokens } = (await generate(engine, `${start} A${more}${first.texts[0]} and`)).usage;
    assert(cachedTokens >= first.usage.promptTokens, `${cachedTokens}`);
  });

  test('saves for requests that arrive together do not look like a stuck step', async (t) => {
    await using other = await temporaryFolder();
    await using engine = await open(other, { file, slots: 2 });
    await generate(engine, conversation('A'));
    await generate(engine, conversation('B'));
    const ages: (number | null)[] = [];
    const now = performance.now.bind(performance);
    const SAVE_MS = 1e6;
    t.mock.method(performance, 'now', () => now() + SAVE_MS * ages.length);
    t.mock.method(ConversationStore.prototype, 'save', async () => {
      await Promise.resolve(ages.push(engine.health().lastStepAgeMs));
    });
    await complete(engine, text('', { prompts: [conversation('C'), conversation('D')], maxTokens: 1 }));
    assert.equal(ages.length, 2);
    for (const age of ages) assert(age !== null && age < SAVE_MS, `${age}`);
  });

  test('the oldest are deleted when there is no more room', async () => {
    await using other = await temporaryFolder();
    let bytes: number;
    {
      await using engine = await open(other, { file });
      await generate(engine, conversation('A'));
      await generate(engine, conversation('B'));
      ({ bytes } = gauges(engine));
    }
    await using engine = await open(other, { file }, { bytes: Math.floor(bytes * 2.5) });
    for (const name of ['A', 'B', 'C', 'D']) await generate(engine, conversation(name));
    assert.equal(gauges(engine).entries, 2);
    assert.equal(gauges(engine).saves, 3);
    assert.equal((await statesIn(other)).length, 2);
  });

  test('a conversation that returns is not deleted to make room for the one that loses its slot', async () => {
    await using other = await temporaryFolder();
    let bytes: number;
    {
      await using engine = await open(other, { file });
      await generate(engine, conversation('A'));
      await generate(engine, conversation('B'));
      ({ bytes } = gauges(engine));
    }
    await using engine = await open(other, { file }, { bytes: Math.floor(bytes * 2.5) });
    const first = await generate(engine, conversation('A'));
    for (const name of ['B', 'C']) await generate(engine, conversation(name));
    assert((await cachedOf(engine, 'A', first)) > 0);
    assert.deepEqual([gauges(engine).entries, gauges(engine).loads], [2, 1]);
  });

  test('two engines use the same directory', async () => {
    await using other = await temporaryFolder();
    await using one = await open(other, { file }, { keep: true });
    await using two = await open(other, { file }, { keep: true });
    const first = await generate(one, conversation('A'));
    await generate(one, conversation('B'));
    await generate(two, conversation('B'));
    await generate(two, conversation('A'));
    assert((await cachedOf(one, 'A', first)) > 0);
    assert.equal(gauges(two).entries, 1);
  });

  test('an engine deletes the files of one that was killed, and leaves nothing', async () => {
    await using other = await temporaryFolder();
    const abandoned = join(other.path, 'conversations', 'engine-abandoned');
    {
      await using engine = await open(other, { file });
      await generate(engine, conversation('A'));
      await generate(engine, conversation('B'));
      assert.equal((await statesIn(other)).length, 1);
    }
    assert.deepEqual(await statesIn(other), []);
    await mkdir(abandoned);
    await writeFile(join(abandoned, '1.state'), 'x');
    await writeFile(join(abandoned, 'lock'), '');
    await using _ = await open(other, { file });
    assert.deepEqual(await statesIn(other), []);
  });

  test('a directory that cannot be used leaves the engine without them', async () => {
    await using other = await temporaryFolder();
    await writeFile(join(other.path, 'conversations'), 'a file');
    await using engine = await open(other, { file });
    assert.equal(engine.health().conversations, null);
    await generate(engine, conversation('A'));
  });

  test('with bytes: 0, none are kept', async () => {
    await using other = await temporaryFolder();
    await using engine = await open(other, { file }, { bytes: 0 });
    assert.equal(engine.health().conversations, null);
  });

  describe('after a restart', () => {
    /** Saves two conversations, the second one at the exit. Returns the completions. */
    async function firstProcess(at: Folder): Promise<Completion[]> {
      await using engine = await open(at, { file }, { keep: true });
      return [await generate(engine, conversation('A')), await generate(engine, conversation('B'))];
    }

    test('are used again if the directory is kept', async () => {
      await using other = await temporaryFolder();
      const [first, second] = (await firstProcess(other)) as [Completion, Completion];
      await using engine = await open(other, { file }, { keep: true });
      assert.equal(gauges(engine).entries, 2);
      assert((await cachedOf(engine, 'A', first)) > 0);
      assert((await cachedOf(engine, 'B', second)) > 0);
    });

    test('those of an account that was closed just before the exit are deleted', async () => {
      await using other = await temporaryFolder();
      {
        await using engine = await open(other, { file }, { keep: true });
        await generate(engine, conversation('A'), 'closed');
        await generate(engine, conversation('B'), 'closed');
        engine.forget('closed');
      }
      assert.deepEqual(await statesIn(other), []);
    });

    test('are deleted if the directory is not kept any more', async () => {
      await using other = await temporaryFolder();
      await firstProcess(other);
      await using engine = await open(other, { file });
      assert.equal(gauges(engine).entries, 0);
      assert.deepEqual(await statesIn(other), []);
    });

    test('are deleted if the sizes of the context or the model have changed', async () => {
      await using other = await temporaryFolder();
      await firstProcess(other);
      {
        await using engine = await open(other, { file, contextTokens: 2048 }, { keep: true });
        assert.equal(gauges(engine).entries, 0);
      }
      await firstProcess(other);
      writeRandomModel('lfm2', file);
      await using engine = await open(other, { file }, { keep: true });
      assert.equal(gauges(engine).entries, 0);
      writeRandomModel('mamba', file);
    });

    test('one whose file was damaged on the disk is computed again, and the others are used', async () => {
      await using other = await temporaryFolder();
      const [first, second] = (await firstProcess(other)) as [Completion, Completion];
      const [state = ''] = (await statesIn(other)).toSorted();
      const data = await readFile(state);
      await writeFile(state, data.fill(0xff, data.length - 64));
      await using engine = await open(other, { file }, { keep: true });
      assert.equal(await cachedOf(engine, 'A', first), 0);
      assert((await cachedOf(engine, 'B', second)) > 0);
      assert.equal(gauges(engine).loads, 1);
    });

    test('a file whose save was interrupted is deleted', async () => {
      await using other = await temporaryFolder();
      await firstProcess(other);
      const [state = '', next = ''] = await statesIn(other);
      // The record is written after the file.
      await rm(`${state}.json`);
      await writeFile(`${next}.json`, '{"fingerprint":');
      await using engine = await open(other, { file }, { keep: true });
      assert.equal(gauges(engine).entries, 0);
      assert.deepEqual(await statesIn(other), []);
    });
  });

  test('the next one to lose its slot is saved while the engine is idle', async () => {
    saveAhead.mock.restore();
    await using other = await temporaryFolder();
    await using engine = await open(other, { file, slots: 2 });
    const first = await generate(engine, conversation('A'));
    await generate(engine, conversation('B'));
    await until(() => gauges(engine).saves === 1);
    const request = text(conversation('C'), { cacheScope: 'account', maxTokens: 3, sampling: always(70) });
    for await (const { type } of await engine.generate(request, new AbortController().signal))
      if (type === 'started') assert.equal(gauges(engine).saves, 1);
    assert((await cachedOf(engine, 'A', first)) > 0);
  });
});
