import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { ScriptedEngine } from '../support/scripted-engine/engine.ts';
import { ServiceError } from '../../src/core/errors.ts';
import type { ReplicaEvent } from '../../src/replicas/replica.ts';
import type { Message, ToolChoice } from '../../src/core/generation.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { openScripted } from '../replicas/replicas.ts';
import { chat, collect, NEVER_ABORTED, text, textOf } from './requests.ts';

const engine = new ScriptedEngine();

function reasoningOf(events: readonly ReplicaEvent[]): string {
  return events.map((event) => (event.type === 'reasoning' ? event.text : '')).join('');
}

/** Returns the calls of the only choice, with parsed arguments. */
function callsOf(events: readonly ReplicaEvent[]): { name: string; arguments: unknown }[] {
  const calls: { name: string; text: string }[] = [];
  for (const event of events) {
    if (event.type === 'tool-call') {
      assert.match(event.id, /^call_[0-9a-z]{24}$/);
      calls[event.call] = { name: event.name, text: '' };
    } else if (event.type === 'tool-arguments') {
      const call = calls[event.call];
      assert.ok(call);
      call.text += event.text;
    }
  }
  return calls.map(({ name, text: json }) => ({ name, arguments: JSON.parse(json) as unknown }));
}

describe('the scripted engine', () => {
  it('generates the same text for equal requests, and different texts for different ones', async () => {
    const one = await collect(engine.generate(chat(), NEVER_ABORTED));
    assert.deepEqual(await collect(engine.generate(chat(), NEVER_ABORTED)), one);
    const other = await collect(engine.generate(chat({ tokens: 17 }), NEVER_ABORTED));
    assert.notEqual(textOf(other).slice(0, 20), textOf(one).slice(0, 20));
  });

  it('emits started, token, finish and end events, and reports the usage', async () => {
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

  it('refuses a prompt that leaves no room for a completion, and reports both lengths', async () => {
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

  const calls = [
    { name: 'f', arguments: { a: 1, b: ['x', 'ü'] } },
    { name: 'g', arguments: {} },
  ];

  it('generates reasoning, text and calls as directed, and reports the usage', async () => {
    const events = await collect(
      engine.generate(chat({ reasoning: 'Let me see', text: 'One moment', calls }), NEVER_ABORTED),
    );
    assert.equal(textOf(events), 'One moment');
    assert.equal(reasoningOf(events), 'Let me see');
    assert.deepEqual(callsOf(events), calls);
    assert.ok(events.filter(({ type }) => type === 'tool-arguments').length > 2);
    assert.deepEqual(events.at(-2), { type: 'finish', choice: 0, reason: 'tool_calls', stopSequence: null });
    const end = events.at(-1);
    assert(end?.type === 'end');
    assert.equal(end.usage.completionTokens, events.length - 3);
    assert.equal(end.usage.reasoningTokens, events.filter(({ type }) => type === 'reasoning').length);
  });

  it('stops at max_tokens in the reasoning, before a call or within one', async () => {
    const directive = { reasoning: 'Let me see', calls };
    const whole = await collect(engine.generate(chat(directive), NEVER_ABORTED));
    const total = whole.length - 3;
    for (let maxTokens = 1; maxTokens <= total; maxTokens++) {
      const events = await collect(engine.generate(chat(directive, { maxTokens }), NEVER_ABORTED));
      assert.equal(events.length - 3, maxTokens);
      assert.deepEqual(
        events.slice(0, -2).map(({ type }) => type),
        whole.slice(0, maxTokens + 1).map(({ type }) => type),
      );
      const reason = maxTokens < total ? 'length' : 'tool_calls';
      assert.deepEqual(events.at(-2), { type: 'finish', choice: 0, reason, stopSequence: null });
    }
  });

  it('applies stop sequences to the text only, and emits no call after a stop sequence', async () => {
    const stopped = { reasoning: 'a STOP b', text: 'c STOP d', calls };
    const events = await collect(engine.generate(chat(stopped, { stop: [' STOP'] }), NEVER_ABORTED));
    assert.deepEqual([reasoningOf(events), textOf(events), callsOf(events)], ['a STOP b', 'c', []]);
    assert.deepEqual(events.at(-2), { type: 'finish', choice: 0, reason: 'stop', stopSequence: ' STOP' });
    const called = await collect(engine.generate(chat({ calls }, { stop: ['"a"'] }), NEVER_ABORTED));
    assert.deepEqual(callsOf(called), calls);
  });

  it('calls the required function with example arguments, and only one if parallel calls are off', async () => {
    const tool = (name: string) => ({
      name,
      description: null,
      parameters: { type: 'object', properties: { [name]: { type: 'integer' } }, required: [name] },
      strict: false,
    });
    const tools = [tool('f'), tool('g'), tool('h')];
    const choices: [ToolChoice, string[]][] = [
      [{ type: 'auto' }, []],
      [{ type: 'none' }, []],
      [{ type: 'required' }, ['f']],
      [{ type: 'function', name: 'g' }, ['g']],
      [{ type: 'allowed', mode: 'auto', names: ['h'] }, []],
      [{ type: 'allowed', mode: 'required', names: ['h', 'g'] }, ['g']],
    ];
    for (const [toolChoice, names] of choices) {
      const messages = [{ role: 'user', content: 'Hi' }] as const;
      const events = await collect(engine.generate(chat({}, { messages, tools, toolChoice }), NEVER_ABORTED));
      assert.deepEqual(
        callsOf(events),
        names.map((name) => ({ name, arguments: { [name]: 0 } })),
      );
      assert.equal(textOf(events) === '', names.length > 0);
    }
    const single = await collect(
      engine.generate(chat({ calls }, { parallelToolCalls: false }), NEVER_ABORTED),
    );
    assert.deepEqual(callsOf(single), calls.slice(0, 1));
  });

  it('refuses directives with reasoning or calls in text completions', async () => {
    for (const directive of [{ reasoning: 'a' }, { calls }])
      await assert.rejects(collect(engine.generate(text(directive), NEVER_ABORTED)), /only for chats/);
  });

  it('sends calls and reasoning over HTTP, streaming or not', async () => {
    await using replica = await openScripted();
    for (const stream of [true, false]) {
      const request = chat({ reasoning: 'Let me see', text: 'Hm', calls }, { stream });
      const events = await collect(replica.generate(request, NEVER_ABORTED));
      assert.deepEqual([reasoningOf(events), textOf(events)], ['Let me see', 'Hm']);
      assert.deepEqual(callsOf(events), calls);
      assert.deepEqual(events.at(-2), {
        type: 'finish',
        choice: 0,
        reason: 'tool_calls',
        stopSequence: null,
      });
      const end = events.at(-1);
      assert(end?.type === 'end');
      assert.deepEqual([end.usage.reasoningTokens, end.usageSource], [3, 'engine']);
    }
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

  it('stops all requests after `hangAfter` tokens, and reports the time since the last step', async () => {
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
    for (const content of ['scripted:{"tokns":1}', 'scripted:[{"tokns":1},{"text":"a"}]', 'scripted:[]']) {
      const request = chat({}, { messages: [{ role: 'user', content }] });
      await assert.rejects(collect(engine.generate(request, NEVER_ABORTED)), /tokns|expected an object/);
    }
  });

  it('takes the directive of each response after the user message from a list', async () => {
    const user = {
      role: 'user',
      content: scripted([{ calls }, { text: 'Two.' }, { text: 'Three.' }]),
    } as const;
    const turn: Message[] = [
      {
        role: 'assistant',
        content: '',
        reasoning: null,
        toolCalls: [{ id: 'a', name: 'f', arguments: '{}' }],
      },
      { role: 'tool', content: 'ok', toolCallId: 'a' },
    ];
    const answer = (...turns: Message[][]) => {
      const messages = [
        { role: 'assistant', content: 'Earlier.', reasoning: null, toolCalls: [] } as const,
        user,
      ];
      return collect(engine.generate(chat({}, { messages: [...messages, ...turns.flat()] }), NEVER_ABORTED));
    };
    assert.deepEqual(callsOf(await answer()), calls);
    assert.equal(textOf(await answer(turn)), 'Two.');
    assert.equal(textOf(await answer(turn, turn)), 'Three.');
    assert.equal(textOf(await answer(turn, turn, turn)), 'Three.');
  });
});
