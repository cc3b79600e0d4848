import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';
import { ScriptedEngine } from '../../src/engine/scripted/engine.ts';
import { ServiceError } from '../../src/errors.ts';
import { chat, collect, NEVER_ABORTED, text, textOf } from './requests.ts';

const engine = new ScriptedEngine();

describe('the scripted engine', () => {
  it('generates equal texts for equal requests only', async () => {
    const one = await collect(engine.generate(chat(), NEVER_ABORTED));
    assert.deepEqual(await collect(engine.generate(chat(), NEVER_ABORTED)), one);
    const other = await collect(engine.generate(chat({ tokens: 17 }), NEVER_ABORTED));
    assert.notEqual(textOf(other).slice(0, 20), textOf(one).slice(0, 20));
  });

  it('emits started, tokens, finish and end, with the usage', async () => {
    const events = await collect(
      engine.generate(chat({ text: 'one two three', cachedTokens: 2 }), NEVER_ABORTED),
    );
    assert.deepEqual(
      events.map(({ type }) => type),
      ['started', 'token', 'token', 'token', 'finish', 'end'],
    );
    const end = events.at(-1);
    assert(end?.type === 'end');
    assert.deepEqual([end.usage.completionTokens, end.usage.cachedTokens], [3, 2]);
    assert.equal(textOf(events), 'one two three');
  });

  it('applies max_tokens and the first stop sequence', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: fc.constantFrom('a', 'b', ' ', '🙂'), maxLength: 30 }),
        fc.array(fc.string({ unit: fc.constantFrom('a', 'b', ' '), minLength: 1, maxLength: 3 }), {
          maxLength: 4,
        }),
        fc.integer({ min: 1, max: 8 }),
        async (content, stop, maxTokens) => {
          const events = await collect(
            engine.generate(chat({ text: content }, { stop, maxTokens }), NEVER_ABORTED),
          );
          const out = textOf(events);
          assert(content.startsWith(out));
          assert(stop.every((sequence) => !out.includes(sequence)));
          assert(events.filter(({ type }) => type === 'token').length <= maxTokens);
          const finish = events.find(({ type }) => type === 'finish');
          assert(finish?.type === 'finish');
          if (finish.reason === 'length') assert(out.length < content.length);
          else assert(out === content || stop.some((sequence) => content.startsWith(out + sequence)));
        },
      ),
    );
  });

  it('refuses a prompt that abort no room for a completion, with both numbers', async () => {
    const small = new ScriptedEngine({ contextTokens: 3 });
    await assert.rejects(collect(small.generate(chat(), NEVER_ABORTED)), (error) => {
      assert(error instanceof ServiceError);
      assert.equal(error.code, 'context_length_exceeded');
      assert.equal(error.param, 'messages');
      assert.match(error.message, / 3 tokens; the prompt has \d+,/);
      return true;
    });
  });

  it('numbers the choices prompt by prompt', async () => {
    const request = text({}, { prompts: ['one', 'two'], choices: 2, maxTokens: 3 });
    const events = await collect(engine.generate(request, NEVER_ABORTED));
    const texts = [0, 1, 2, 3].map((choice) => textOf(events, choice));
    assert.equal(new Set(texts).size, 4);
    assert.equal(events.filter(({ type }) => type === 'finish').length, 4);
  });

  it('returns log probabilities on request', async () => {
    const events = await collect(engine.generate(chat({ text: 'one' }, { logprobs: 3 }), NEVER_ABORTED));
    const token = events.find(({ type }) => type === 'token');
    assert(token?.type === 'token');
    const [logprob] = token.logprobs ?? [];
    assert.equal(logprob?.token, 'one');
    assert.equal(logprob.top.length, 3);
    assert(logprob.top.every(({ logprob: value }) => value <= 0));
  });

  it('generates JSON that matches the requested schema', async () => {
    const schema = {
      type: 'object',
      properties: { a: { type: 'integer' }, b: { enum: ['x'] } },
      required: ['a', 'b'],
    };
    const responseFormat = { type: 'json_schema', name: 'n', schema, strict: true } as const;
    const events = await collect(engine.generate(chat({}, { responseFormat }), NEVER_ABORTED));
    assert.deepEqual(JSON.parse(textOf(events)), { a: 0, b: 'x' });
  });

  it('queues requests until a slot is free, and refuses them when the queue is full', async () => {
    const narrow = new ScriptedEngine({ slots: 1, queue: 1 });
    const first = narrow.generate(chat(), NEVER_ABORTED);
    assert.equal((await first.next()).value?.type, 'started');
    const second = collect(narrow.generate(chat(), NEVER_ABORTED));
    await assert.rejects(collect(narrow.generate(chat(), NEVER_ABORTED)), { code: 'queue_full' });
    assert.deepEqual([narrow.health().slotsInUse, narrow.health().queued], [1, 1]);
    await first.return(undefined);
    assert.equal((await second).at(-1)?.type, 'end');
    assert.deepEqual([narrow.health().slotsInUse, narrow.health().queued], [0, 0]);
  });

  it('frees the slot or the queue place when the request is aborted', async () => {
    const narrow = new ScriptedEngine({ slots: 1, tokenMs: 60_000 });
    const [firstAbort, secondAbort] = [new AbortController(), new AbortController()];
    const running = narrow.generate(chat(), firstAbort.signal);
    await running.next();
    const waiting = narrow.generate(chat(), secondAbort.signal).next();
    secondAbort.abort(new Error('aborted in the queue'));
    await assert.rejects(waiting, /aborted in the queue/);
    await running.next();
    const next = running.next();
    firstAbort.abort(new Error('aborted while generating'));
    await assert.rejects(next, /aborted while generating/);
    assert.deepEqual([narrow.health().slotsInUse, narrow.health().queued], [0, 0]);
  });

  it('stops all requests after hangAfter, and reports the time since the last step', async () => {
    const hanging = new ScriptedEngine();
    const abort = new AbortController();
    const events = hanging.generate(chat({ hangAfter: 1 }), abort.signal);
    await events.next();
    await events.next();
    const never = events.next();
    // Other requests stop as well.
    const other = hanging.generate(chat(), abort.signal);
    await other.next();
    const neither = other.next();
    while ((hanging.health().lastStepAgeMs ?? 0) === 0) await new Promise((resolve) => setImmediate(resolve));
    abort.abort(new Error('enough'));
    await assert.rejects(never, /enough/);
    await assert.rejects(neither, /enough/);
  });

  it('names the invalid field of a directive', async () => {
    const request = chat({}, { messages: [{ role: 'user', content: 'scripted:{"tokns":1}' }] });
    await assert.rejects(collect(engine.generate(request, NEVER_ABORTED)), /tokns/);
  });
});
