import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import type { NativeContext } from '../../../src/engine/llama/native/context.ts';
import { ConversationStore, MIN_ADDED } from '../../../src/engine/llama/conversations/conversation-store.ts';
import type { StoreDirectory } from '../../../src/engine/llama/conversations/store-directory.ts';
import { openLog, SILENT } from '../../../src/support/log.ts';
import { temporaryFolder } from '../../harness.ts';

const BYTES_PER_TOKEN = 4;

/** A context whose sequences are their tokens. */
class FakeContext {
  readonly sequences = new Map<number, Uint32Array>();
  /** Thrown by `save`, after a part of the file was written. */
  failure: Error | null = null;

  canStore(): boolean {
    return true;
  }

  async save(_sequence: number, tokens: Uint32Array, file: string): Promise<number> {
    writeFileSync(file, tokens);
    if (this.failure !== null) throw this.failure;
    return await Promise.resolve(tokens.byteLength);
  }

  async load(sequence: number, file: string): Promise<Uint32Array> {
    const tokens = new Uint32Array(Uint8Array.from(readFileSync(file)).buffer);
    this.sequences.set(sequence, tokens);
    return await Promise.resolve(tokens);
  }

  clear(sequence: number): void {
    this.sequences.delete(sequence);
  }
}

async function openStore({
  maxBytes = 1e9,
  canTrim = true,
  slidingWindow = null as number | null,
  log = SILENT,
  flushMsPerByte = 0,
  size = { perToken: BYTES_PER_TOKEN, fixed: 0 },
  left = [] as readonly string[],
} = {}) {
  const folder = await temporaryFolder();
  for (const name of left) writeFileSync(join(folder.path, name), '{}');
  const directory: StoreDirectory = {
    path: folder.path,
    maxBytes,
    keeps: false,
    writeMsPerByte: 1e-6,
    readMsPerByte: 1e-6,
    flushMsPerByte,
    maxPauseMs: 10_000,
    [Symbol.asyncDispose]: async () => {},
  };
  const store = await ConversationStore.open({
    directory,
    canTrim,
    slidingWindow,
    size,
    fingerprint: '',
    log,
  });
  const context = new FakeContext();
  return {
    store,
    path: folder.path,
    context,
    native: context as unknown as NativeContext,
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** Returns tokens that are the same for the same name and up to `length`. */
const tokensOf = (name: number, length: number): Uint32Array =>
  Uint32Array.from({ length }, (_, at) => name * 100_000 + at);

const MS_PER_TOKEN = 1;

test('a conversation is found by its longest prefix, and loaded as it was saved', async () => {
  await using opened = await openStore();
  const { store, context, native } = opened;
  await store.save(native, 0, tokensOf(1, 300), 'a');
  await store.save(native, 0, Uint32Array.from([...tokensOf(1, 300), ...tokensOf(2, 300)]), 'a');
  const prompt = Uint32Array.from([...tokensOf(1, 300), ...tokensOf(2, 280), 7]);
  const match = store.find(prompt, 'a', 0, MS_PER_TOKEN);
  assert.equal(match?.length, 580);
  assert(await store.load(native, 3, match.conversation));
  assert.deepEqual(context.sequences.get(3), match.conversation.tokens);
  assert.equal(store.find(prompt, 'a', 580, MS_PER_TOKEN), null, 'a slot has as much');
});

test('files of killed processes are deleted, also a record whose conversation was deleted', async () => {
  await using opened = await openStore({ left: ['1.state', '1.state.json', '2.state', '3.state.json'] });
  assert.deepEqual(readdirSync(opened.path), []);
});

test('a conversation that grew replaces its earlier version, and a small growth is not saved', async () => {
  await using opened = await openStore();
  const { store, native } = opened;
  await store.save(native, 0, tokensOf(1, 400), 'a');
  assert(!store.isWorthSaving(tokensOf(1, 400 + MIN_ADDED - 1), 'a', 0, MS_PER_TOKEN));
  assert(store.isWorthSaving(tokensOf(1, 400 + MIN_ADDED), 'a', 0, MS_PER_TOKEN));
  assert(!store.isWorthSaving(tokensOf(1, 700), 'a', 690, MS_PER_TOKEN), 'another slot has it');
  await store.save(native, 0, tokensOf(1, 700), 'a');
  assert.equal(store.gauges().entries, 1);
});

test('without trimming, a conversation is only used as a whole, and its earlier versions stay', async () => {
  await using opened = await openStore({ canTrim: false });
  const { store, native } = opened;
  await store.save(native, 0, tokensOf(1, 400), 'a');
  assert.equal(store.find(tokensOf(1, 390), 'a', 0, MS_PER_TOKEN), null);
  assert.equal(store.find(tokensOf(1, 400), 'a', 0, MS_PER_TOKEN), null, 'its last token is computed');
  assert.equal(store.find(tokensOf(1, 401), 'a', 0, MS_PER_TOKEN)?.length, 400);
  await store.save(native, 0, tokensOf(1, 700), 'a');
  assert.equal(store.gauges().entries, 2);
});

test('with a sliding window, only a conversation that is shorter than it can be trimmed', async () => {
  await using opened = await openStore({ slidingWindow: 400 });
  const { store, native } = opened;
  await store.save(native, 0, tokensOf(1, 399), 'a');
  await store.save(native, 0, tokensOf(2, 400), 'a');
  assert.equal(store.find(tokensOf(1, 390), 'a', 0, MS_PER_TOKEN)?.length, 389);
  assert.equal(store.find(tokensOf(2, 390), 'a', 0, MS_PER_TOKEN), null);
  assert.equal(store.find(tokensOf(2, 450), 'a', 0, MS_PER_TOKEN)?.minKeep, 400);
});

test('a conversation is neither saved nor loaded if computing it again is about as fast', async () => {
  await using opened = await openStore();
  const { store, native } = opened;
  const long = tokensOf(1, 10_000_000);
  assert(!store.isWorthSaving(long, 'a', 0, 1e-6));
  assert(store.isWorthSaving(long, 'a', 0, 1e-4));
  await store.save(native, 0, long, 'a');
  assert.equal(store.find(long, 'a', 0, 1e-7), null);
  assert(store.find(long, 'a', 0, 1e-3));
  // It saves more than the tokens beyond the margin.
  assert(store.find(long, 'a', 0, 1e-4, 9_900_000));
  assert.equal(store.find(long, 'a', 9_900_000, 1e-4), null);
});

test('after a failed save, its file is deleted, older conversations make room, and none is saved for a while', async () => {
  const lines: string[] = [];
  const log = openLog('warn', { write: (line) => lines.push(line) });
  await using opened = await openStore({ log });
  const { store, context, native } = opened;
  for (const name of [1, 2, 3, 4]) await store.save(native, 0, tokensOf(name, 300), 'a');
  context.failure = new Error('ENOSPC: no space left on device');
  await store.save(native, 0, tokensOf(5, 300), 'a');
  assert.equal(store.gauges().entries, 3);
  assert.equal(store.gauges().bytes, 3 * 300 * BYTES_PER_TOKEN);
  assert.equal(store.find(tokensOf(1, 301), 'a', 0, MS_PER_TOKEN), null, 'the oldest was deleted');
  assert(!store.isWorthSaving(tokensOf(6, 300), 'a', 0, MS_PER_TOKEN));
  assert.match(lines.join('\n'), /could not be saved/);
});

test('a save keeps the conversation that is loaded next, though it replaces it and there is no room for both', async () => {
  for (const maxBytes of [1e9, 600 * BYTES_PER_TOKEN]) {
    await using opened = await openStore({ maxBytes });
    const { store, native } = opened;
    await store.save(native, 0, tokensOf(1, 500), 'a');
    const match = store.find(tokensOf(1, 540), 'a', 0, MS_PER_TOKEN);
    assert(match);
    // The other conversation has all but 200 of its tokens.
    const other = Uint32Array.from([...tokensOf(1, 300), ...tokensOf(2, 100)]);
    await store.save(native, 0, other, 'a', match.conversation);
    assert(await store.load(native, 0, match.conversation));
    assert.equal(store.find(tokensOf(1, 540), 'a', 0, MS_PER_TOKEN)?.length, 500);
  }
});

test('no scope loses conversations to another one that has more than an equal share', async () => {
  const scope = fc.constantFrom('a', 'b', 'c', 'd');
  const saves = fc.array(fc.record({ scope, length: fc.integer({ min: 256, max: 500 }) }), { maxLength: 30 });
  const maxBytes = 4000 * BYTES_PER_TOKEN;
  await fc.assert(
    fc.asyncProperty(saves, async (steps) => {
      await using opened = await openStore({ maxBytes });
      const { store, native } = opened;
      const quiet = [1001, 1002];
      for (const name of quiet) await store.save(native, 0, tokensOf(name, 400), 'quiet');
      for (const [name, { scope: of, length }] of steps.entries())
        await store.save(native, 0, tokensOf(name, length), of);
      // Five scopes have at least 800 tokens each.
      for (const name of quiet) assert(store.find(tokensOf(name, 401), 'quiet', 0, MS_PER_TOKEN));
      assert(store.gauges().bytes <= maxBytes);
    }),
    { numRuns: 20 },
  );
});

test('the least recently used conversation of those scopes is deleted first', async () => {
  await using opened = await openStore({ maxBytes: 1200 * BYTES_PER_TOKEN });
  const { store, native } = opened;
  for (const [name, scope] of [
    [1, 'a'],
    [2, 'b'],
    [3, 'a'],
    [4, 'a'],
    [5, 'a'],
  ] as const)
    await store.save(native, 0, tokensOf(name, 300), scope);
  const found = [1, 2, 3, 4, 5].filter(
    (name) => store.find(tokensOf(name, 301), name === 2 ? 'b' : 'a', 0, MS_PER_TOKEN) !== null,
  );
  assert.deepEqual(found, [2, 3, 4, 5]);
});

test('what memory buffers for a slow disk is bounded, and saved again once the disk has it', async () => {
  // One second for 1,000 tokens.
  const size = { perToken: 0, fixed: 0 };
  await using opened = await openStore({ size, flushMsPerByte: 1 / BYTES_PER_TOKEN });
  const { store, native } = opened;
  const isWorthSaving = (name: number, length: number) =>
    store.isWorthSaving(tokensOf(name, length), 'a', 0, MS_PER_TOKEN);
  assert(!isWorthSaving(1, 12_000), 'it would stop all requests for 12 s');
  assert(isWorthSaving(1, 8000));
  await store.save(native, 0, tokensOf(1, 8000), 'a');
  assert(!isWorthSaving(2, 4000), 'both may have to wait for the disk');
  await store[Symbol.asyncDispose]();
  assert(isWorthSaving(2, 4000));
});

test('a model whose metadata has no sizes keeps more than one conversation', async () => {
  await using opened = await openStore({ size: { perToken: 0, fixed: 0 } });
  const { store, native } = opened;
  await store.save(native, 0, tokensOf(1, 300), 'a');
  assert(store.isWorthSaving(tokensOf(2, 300), 'a', 0, MS_PER_TOKEN));
  await store.save(native, 0, tokensOf(2, 300), 'a');
  assert.equal(store.gauges().entries, 2);
});

test('no scope sees the tokens of another, and the bounds hold, whatever is saved, loaded and deleted', async () => {
  const scope = fc.constantFrom('a', 'b', 'c');
  const step = fc.oneof(
    fc.record({
      kind: fc.constant('save' as const),
      scope,
      name: fc.nat(3),
      length: fc.integer({ min: 256, max: 900 }),
    }),
    fc.record({
      kind: fc.constant('find' as const),
      scope,
      name: fc.nat(3),
      length: fc.integer({ min: 256, max: 900 }),
    }),
    fc.record({ kind: fc.constant('forget' as const), scope, name: fc.constant(0), length: fc.constant(0) }),
  );
  const maxBytes = 2500 * BYTES_PER_TOKEN;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), fc.boolean(), async (steps, canTrim) => {
      await using opened = await openStore({ maxBytes, canTrim });
      const { store, context, native } = opened;
      const saved = new Map<string, Set<number>>();
      for (const { kind, scope: of, name, length } of steps) {
        const tokens = tokensOf(name, length);
        if (kind === 'save') {
          if (!store.isWorthSaving(tokens, of, 0, MS_PER_TOKEN)) continue;
          await store.save(native, 0, tokens, of);
          saved.set(of, (saved.get(of) ?? new Set()).add(name));
        } else if (kind === 'forget') {
          await store.forget(of);
          saved.delete(of);
        } else {
          const match = store.find(tokens, of, 0, MS_PER_TOKEN);
          if (match === null) continue;
          assert.equal(match.conversation.scope, of);
          assert(saved.get(of)?.has(name), 'only what this scope has saved since it was deleted');
          assert(await store.load(native, 1, match.conversation));
          assert.deepEqual(
            context.sequences.get(1)?.subarray(0, match.length),
            tokens.subarray(0, match.length),
          );
          assert(match.length < tokens.length);
        }
        assert(store.gauges().bytes <= maxBytes);
      }
    }),
    { numRuns: 60 },
  );
});
