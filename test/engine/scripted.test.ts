import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';
import { ScriptedEngine } from '../../src/engine/scripted/engine.ts';
import { ServiceError } from '../../src/errors.ts';
import { chat, collect, STAYS, text, textOf } from './requests.ts';

const engine = new ScriptedEngine();

describe('the scripted engine', () => {
  it('says the same for the same request, and another thing for another', async () => {
    const one = await collect(engine.generate(chat(), STAYS));
    assert.deepEqual(await collect(engine.generate(chat(), STAYS)), one);
    const other = await collect(engine.generate(chat({ tokens: 17 }), STAYS));
    assert.notEqual(textOf(other).slice(0, 20), textOf(one).slice(0, 20));
  });

  it('goes through started, tokens, finish and end, with the usage counted', async () => {
    const events = await collect(engine.generate(chat({ text: 'one two three', cachedTokens: 2 }), STAYS));
    assert.deepEqual(
      events.map(({ type }) => type),
      ['started', 'token', 'token', 'token', 'finish', 'end'],
    );
    const end = events.at(-1);
    assert(end?.type === 'end');
    assert.deepEqual([end.usage.completionTokens, end.usage.cachedTokens], [3, 2]);
    assert.equal(textOf(events), 'one two three');
  });

  it('keeps max_tokens, the context, and the first of the stop sequences', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: fc.constantFrom('a', 'b', ' ', '🙂'), maxLength: 30 }),
        fc.array(fc.string({ unit: fc.constantFrom('a', 'b', ' '), minLength: 1, maxLength: 3 }), {
          maxLength: 4,
        }),
        fc.integer({ min: 1, max: 8 }),
        async (said, stop, maxTokens) => {
          const events = await collect(engine.generate(chat({ text: said }, { stop, maxTokens }), STAYS));
          const out = textOf(events);
          assert(said.startsWith(out));
          assert(stop.every((sequence) => !out.includes(sequence)));
          assert(events.filter(({ type }) => type === 'token').length <= maxTokens);
          const finish = events.find(({ type }) => type === 'finish');
          assert(finish?.type === 'finish');
          if (finish.reason === 'length') assert(out.length < said.length);
          else assert(out === said || stop.some((sequence) => said.startsWith(out + sequence)));
        },
      ),
    );
  });

  it('refuses a prompt that leaves no room, with both numbers', async () => {
    const small = new ScriptedEngine({ contextTokens: 3 });
    await assert.rejects(collect(small.generate(chat(), STAYS)), (error) => {
      assert(error instanceof ServiceError);
      assert.equal(error.code, 'context_length_exceeded');
      assert.equal(error.param, 'messages');
      assert.match(error.message, / 3 tokens; the prompt has \d+,/);
      return true;
    });
  });

  it('numbers the choices prompt by prompt', async () => {
    const request = text({}, { prompts: ['one', 'two'], choices: 2, maxTokens: 3 });
    const events = await collect(engine.generate(request, STAYS));
    const texts = [0, 1, 2, 3].map((choice) => textOf(events, choice));
    assert.equal(new Set(texts).size, 4);
    assert.equal(events.filter(({ type }) => type === 'finish').length, 4);
  });

  it('gives log probabilities that fall, when asked for', async () => {
    const events = await collect(engine.generate(chat({ text: 'one' }, { logprobs: 3 }), STAYS));
    const token = events.find(({ type }) => type === 'token');
    assert(token?.type === 'token');
    const [logprob] = token.logprobs ?? [];
    assert.equal(logprob?.token, 'one');
    assert.equal(logprob.top.length, 3);
    assert(logprob.top.every(({ logprob: value }) => value <= 0));
  });

  it('answers JSON that fits the schema asked for', async () => {
    const schema = {
      type: 'object',
      properties: { a: { type: 'integer' }, b: { enum: ['x'] } },
      required: ['a', 'b'],
    };
    const responseFormat = { type: 'json_schema', name: 'n', schema, strict: true } as const;
    const events = await collect(engine.generate(chat({}, { responseFormat }), STAYS));
    assert.deepEqual(JSON.parse(textOf(events)), { a: 0, b: 'x' });
  });

  it('makes a request wait for a slot, in the order of coming, and turns away what may not wait', async () => {
    const narrow = new ScriptedEngine({ slots: 1, queue: 1 });
    const first = narrow.generate(chat(), STAYS);
    assert.equal((await first.next()).value?.type, 'started');
    const second = collect(narrow.generate(chat(), STAYS));
    await assert.rejects(collect(narrow.generate(chat(), STAYS)), { code: 'queue_full' });
    assert.deepEqual([narrow.health().slotsInUse, narrow.health().queued], [1, 1]);
    await first.return(undefined);
    assert.equal((await second).at(-1)?.type, 'end');
    assert.deepEqual([narrow.health().slotsInUse, narrow.health().queued], [0, 0]);
  });

  it('frees slot and place when the caller leaves, in the queue and in the middle of a text', async () => {
    const narrow = new ScriptedEngine({ slots: 1, tokenMs: 60_000 });
    const [talks, waits] = [new AbortController(), new AbortController()];
    const talking = narrow.generate(chat(), talks.signal);
    await talking.next();
    const waiting = narrow.generate(chat(), waits.signal).next();
    waits.abort(new Error('left the queue'));
    await assert.rejects(waiting, /left the queue/);
    await talking.next();
    const next = talking.next();
    talks.abort(new Error('left the text'));
    await assert.rejects(next, /left the text/);
    assert.deepEqual([narrow.health().slotsInUse, narrow.health().queued], [0, 0]);
  });

  it('hangs as a whole, and its health says since when', async () => {
    const hanging = new ScriptedEngine();
    const leaves = new AbortController();
    const events = hanging.generate(chat({ hangAfter: 1 }), leaves.signal);
    await events.next();
    await events.next();
    const never = events.next();
    // The step of another request does not come either.
    const other = hanging.generate(chat(), leaves.signal);
    await other.next();
    const neither = other.next();
    while ((hanging.health().lastStepAgeMs ?? 0) === 0) await new Promise((resolve) => setImmediate(resolve));
    leaves.abort(new Error('enough'));
    await assert.rejects(never, /enough/);
    await assert.rejects(neither, /enough/);
  });

  it('names what is wrong with a directive', async () => {
    const request = chat({}, { messages: [{ role: 'user', content: 'scripted:{"tokns":1}' }] });
    await assert.rejects(collect(engine.generate(request, STAYS)), /tokns/);
  });
});
