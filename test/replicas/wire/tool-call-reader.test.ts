import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { ServiceError } from '../../../src/core/errors.ts';
import type { EngineEvent } from '../../../src/core/generation.ts';
import { packResponse } from '../../../src/json/packed-response.ts';
import {
  readPackedResponse,
  readResponse,
  StreamReader,
} from '../../../src/replicas/wire/response-reader.ts';
import { UsageMeter } from '../../../src/replicas/wire/usage-meter.ts';
import { finish, refuses, token, toolArguments, toolCall } from '../../protocols/openai/samples.ts';

type Part = Record<string, unknown>;

const delta = (...tool_calls: unknown[]) => ({ choices: [{ index: 0, delta: { tool_calls } }] });
const end = (finish_reason: string) => ({ choices: [{ index: 0, delta: {}, finish_reason }] });

/** Reads a stream of these frames. Returns the events between `started` and `end`, without counts. */
function read(...frames: object[]): EngineEvent[] {
  return uncounted(readAll(...frames)).slice(1, -1);
}

function readAll(...frames: object[]): EngineEvent[] {
  return readOffered([], ...frames);
}

/** Reads the stream of a request with these functions. */
function readOffered(offered: readonly string[], ...frames: object[]): EngineEvent[] {
  const reader = new StreamReader('chat', undefined, offered);
  const wire = frames.map((frame) => sse(JSON.stringify(frame)));
  return [...reader.push(Buffer.concat(wire)), ...reader.end()];
}

const sse = (json: string): Buffer => Buffer.from(`data: ${json}\n\n`);

function readWhole(message: object, finish_reason = 'tool_calls'): EngineEvent[] {
  const body = JSON.stringify({ choices: [{ index: 0, message, finish_reason }] });
  return uncounted(readResponse('chat', body)).slice(1, -1);
}

function uncounted(events: readonly EngineEvent[]): EngineEvent[] {
  return events.map((event) => ('completionTokens' in event ? { ...event, completionTokens: 1 } : event));
}

const first = (id: unknown, name: unknown, more: Part = {}) => ({
  index: 0,
  id,
  type: 'function',
  function: { name, arguments: '' },
  ...more,
});
const part = (text: string, more: Part = {}) => ({ index: 0, function: { arguments: text }, ...more });

const ONE = [toolCall('c1', 'f'), toolArguments('{"a":'), toolArguments('1}'), finish('tool_calls')];

describe('tool calls of a stream', () => {
  it('are an ID and a name, then the arguments', () => {
    assert.deepEqual(
      read(delta(first('c1', 'f')), delta(part('{"a":')), delta(part('1}')), end('tool_calls')),
      ONE,
    );
  });

  it('of vLLM start without arguments, not with empty ones', () => {
    const start = { id: 'c1', type: 'function', index: 0, function: { name: 'f' } };
    assert.deepEqual(read(delta(start), delta(part('{"a":')), delta(part('1}')), end('tool_calls')), ONE);
  });

  it('of older TGI are one object instead of a list, with the name in every part', () => {
    const frame = (text: string) => ({
      choices: [
        {
          index: 0,
          delta: {
            role: 'assistant',
            tool_calls: { index: 0, id: '', type: 'function', function: { name: 'f', arguments: text } },
          },
        },
      ],
    });
    const [call, ...rest] = read(frame('{"a":'), frame('1}'), end('eos_token'));
    assert(call?.type === 'tool-call');
    assert.match(call.id, /^call_[0-9a-z]{24}$/);
    assert.deepEqual([call.name, ...rest], ['f', ...ONE.slice(1)]);
  });

  it('keep the first ID and name of servers that repeat them or send new ones', () => {
    const again = { index: 0, id: 'c2', type: 'function', function: { arguments: '1}' } };
    const named = first('c1', 'f', { function: { name: 'f', arguments: '{"a":' } });
    assert.deepEqual(read(delta(named), delta(again), end('stop')), ONE);
    assert.deepEqual(read(delta(first('c1', 'f')), delta(named), delta(part('1}')), end('stop')), ONE);
  });

  it('may have their name in the delta of the arguments', () => {
    const start = { index: 0, id: 'c1', type: 'function', function: { name: null, arguments: '' } };
    const named = part('', { function: { name: 'f', arguments: '{"a":' } });
    assert.deepEqual(read(delta(start), delta(named), delta(part('1}')), end('tool_calls')), ONE);
  });

  it('may have the name of an offered function in pieces', () => {
    const names = fc.uniqueArray(fc.stringMatching(/^[a-c_]{1,6}$/), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(names, fc.array(fc.nat(6)), fc.boolean(), (offered, cuts, withoutIndex) => {
        // A name that begins with another offered one cannot be told apart from it.
        const name = offered.find((one) => offered.every((other) => other === one || !one.startsWith(other)));
        if (name === undefined) return;
        const ends = [...new Set([...cuts.filter((cut) => cut < name.length), name.length])].toSorted(
          (a, b) => a - b,
        );
        const pieces = ends.map((end, index) => name.slice(ends[index - 1] ?? 0, end));
        // A piece that repeats the name so far is a repeated name.
        if (pieces.some((piece, index) => index > 0 && piece === name.slice(0, ends[index - 1]))) return;
        const [start = '', ...rest] = pieces;
        const more = withoutIndex ? { index: undefined } : {};
        const events = readOffered(
          offered,
          delta(first('c1', start, more)),
          ...rest.map((piece) => delta(part('', { ...more, function: { name: piece } }))),
          delta(part('{"a":', more)),
          delta(part('1}', more)),
          end('tool_calls'),
        );
        assert.deepEqual(uncounted(events).slice(1, -1), [toolCall('c1', name), ...ONE.slice(1)]);
      }),
    );
  });

  it('have an unchanged name if it is not the name of an offered function', () => {
    for (const name of ['fun', 'function_2', 'other']) {
      const calls = [toolCall('c1', name), toolArguments('{}'), toolCall('c2', 'function', 1)];
      const events = readOffered(
        ['function'],
        delta(first('c1', name)),
        delta(first('c2', 'function', { index: 1 })),
        delta(part('{"b":2}', { index: 1 })),
        end('stop'),
      );
      assert.deepEqual(uncounted(events).slice(1, 4), calls);
    }
  });

  it('of a type other than function are ignored', () => {
    const custom = { index: 0, id: 'c0', type: 'custom', custom: { name: 'f', input: 'x' } };
    const call = first('c1', 'f', { index: 1 });
    const rest = [delta(part('{"a":', { index: 1 })), delta(part('1}', { index: 1 }))];
    assert.deepEqual(read(delta(custom), delta(call), ...rest, end('tool_calls')), ONE);
    assert.deepEqual(read(delta(custom), end('tool_calls')), [finish('stop')]);
    assert.deepEqual(readWhole({ content: null, tool_calls: [custom] }), [finish('stop')]);
  });

  const TWO = [
    toolCall('c1', 'f'),
    toolArguments('{}'),
    toolCall('c2', 'g', 1),
    toolArguments('{"b":2}', 1),
    finish('tool_calls'),
  ];
  const whole = (id: string, name: string, text: string, more: Part = {}) => ({
    id,
    type: 'function',
    function: { name, arguments: text },
    ...more,
  });

  it('may be whole and several in one delta, with or without an index', () => {
    for (const [a, b] of [
      [{ index: 0 }, { index: 1 }],
      [{ index: 0 }, { index: 0 }],
      [{ index: 3 }, { index: 7 }],
      [{}, {}],
    ]) {
      const frame = delta(whole('c1', 'f', '{}', a), whole('c2', 'g', '{"b":2}', b));
      assert.deepEqual(read(frame, end('tool_calls')), TWO);
    }
    const anonymous = read(delta(whole('', 'f', '{}'), whole('', 'g', '{"b":2}')), end('tool_calls'));
    assert.deepEqual(
      anonymous.map(({ type }) => type),
      TWO.map(({ type }) => type),
    );
  });

  it('without an index continue until the ID changes', () => {
    const more = (text: string) => ({ function: { arguments: text } });
    const events = read(
      delta(whole('c1', 'f', '')),
      delta(more('{')),
      delta({ id: 'c1', ...more('}') }),
      delta(whole('c2', 'g', '')),
      delta(more('{"b":2}')),
      end('tool_calls'),
    );
    assert.deepEqual(events, [TWO[0], toolArguments('{'), toolArguments('}'), ...TWO.slice(2)]);
  });

  it('may alternate, and are sent one after another', () => {
    const value = fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.array(fc.integer())), { maxKeys: 3 });
    const json = fc.array(
      value.map((fields) => JSON.stringify(fields)),
      { minLength: 1, maxLength: 4 },
    );
    const keys = fc.constantFrom('index', 'id', 'index and id', 'one index and id');
    fc.assert(
      fc.property(
        json,
        fc.array(fc.tuple(fc.nat(3), fc.nat(4))),
        keys,
        fc.boolean(),
        (texts, turns, key, cut) => {
          const keyOf = (index: number) => ({
            ...(key === 'id' ? { index: undefined } : { index: key === 'one index and id' ? 0 : index }),
            ...(key === 'index' ? {} : { id: `c${index}` }),
          });
          const frames = texts.map((_, index) => delta(first(`c${index}`, `f${index}`, keyOf(index))));
          const rest = [...texts];
          const take = (index: number, length: number) => {
            const text = rest[index]?.slice(0, length) ?? '';
            rest[index] = rest[index]?.slice(length) ?? '';
            if (text !== '') frames.push(delta(part(text, keyOf(index))));
          };
          for (const [index, length] of turns) take(index % texts.length, length);
          for (const [index] of texts.entries()) take(index, Infinity);
          const received: string[] = [];
          for (const event of read(...frames, end(cut ? 'length' : 'tool_calls'))) {
            if (event.type === 'tool-call') {
              assert.deepEqual([event.call, event.name], [received.length, `f${received.length}`]);
              received.push('');
            } else if (event.type === 'tool-arguments') {
              assert.equal(event.call, received.length - 1, 'the calls do not overlap');
              received.push(received.pop() + event.text);
            }
          }
          assert.deepEqual(received, texts);
        },
      ),
    );
  });

  it('are sent as soon as the call before them is complete', () => {
    const reader = new StreamReader('chat');
    const push = (frame: object) => reader.push(Buffer.from(`data: ${JSON.stringify(frame)}\n\n`)).length;
    const events = [
      delta(first('c1', 'f')),
      delta(part('{"a"')),
      delta(first('c2', 'g', { index: 1 })),
      delta(part('{"b":', { index: 1 })),
      delta(part(':1}')),
      delta(part('2}', { index: 1 })),
    ].map(push);
    // `started` and the first call; its arguments; then the second call with its arguments so far.
    assert.deepEqual(events, [2, 1, 0, 0, 3, 1]);
  });

  it('without arguments have an empty object, unless the response was cut off', () => {
    const second = first('c2', 'g', { index: 1 });
    const calls = [toolCall('c1', 'f'), toolArguments('{}'), toolCall('c2', 'g', 1)];
    assert.deepEqual(read(delta(first('c1', 'f')), delta(second), end('stop')), [
      ...calls,
      toolArguments('{}', 1),
      finish('tool_calls'),
    ]);
    assert.deepEqual(read(delta(first('c1', 'f')), delta(second), end('length')), [
      ...calls,
      finish('length'),
    ]);
  });

  it('count like other deltas, as reasoning does', () => {
    const events = readAll(
      { choices: [{ index: 0, delta: { reasoning: 'Hm' } }] },
      { choices: [{ index: 0, delta: { content: 'Yes' } }] },
      delta(first('c1', 'f')),
      delta(part('{}')),
      end('tool_calls'),
    );
    assert.deepEqual(
      events.flatMap((event) => ('completionTokens' in event ? [event.completionTokens] : [])),
      [1, 2, 3, 4],
    );
    const usage = { promptTokens: 0, completionTokens: 4, cachedTokens: 0, reasoningTokens: 1 };
    assert.deepEqual(events.at(-1), { type: 'end', usage, usageSource: 'estimated' });
  });

  it('drop log probabilities, which belong to text', () => {
    const content = [{ token: '{', logprob: -1, bytes: null, top_logprobs: [] }];
    const frame = {
      choices: [{ index: 0, delta: { tool_calls: [first('c1', 'f')] }, logprobs: { content } }],
    };
    assert.deepEqual(read(frame, delta(part('{"a":')), delta(part('1}')), end('stop')), ONE);
  });

  it('belong to their choice', () => {
    const of = (index: number, call: object) => ({ choices: [{ index, delta: { tool_calls: [call] } }] });
    const events = read(
      of(0, first('c1', 'f')),
      of(1, first('c2', 'g')),
      of(0, part('{}')),
      of(1, part('{}')),
      end('stop'),
      { choices: [{ index: 1, delta: {}, finish_reason: 'stop' }] },
    );
    assert.deepEqual(
      events.map((event) =>
        'choice' in event ? [event.type, event.choice, 'call' in event && event.call] : [],
      ),
      [
        ['tool-call', 0, 0],
        ['tool-call', 1, 0],
        ['tool-arguments', 0, 0],
        ['tool-arguments', 1, 0],
        ['finish', 0, false],
        ['finish', 1, false],
      ],
    );
  });

  it('have the finish reason `tool_calls`, which a choice without calls never has', () => {
    const call = delta(whole('c1', 'f', '{}'));
    for (const reason of ['stop', 'tool_calls', 'function_call', 'eos_token']) {
      assert.deepEqual(read(call, end(reason)).at(-1), finish('tool_calls'));
      assert.deepEqual(
        read({ choices: [{ index: 0, delta: { content: 'a' } }] }, end(reason)).at(-1),
        finish('stop'),
      );
    }
  });
});

describe('tool calls of a whole response', () => {
  it('have an index by position, and arguments as text or as an object', () => {
    for (const value of ['{"a":1}', { a: 1 }]) {
      const tool_calls = [
        { id: 'c1', type: 'function', function: { name: 'f', arguments: value } },
        { id: 'c2', type: 'function', function: { name: 'f', arguments: null } },
      ];
      assert.deepEqual(readWhole({ role: 'assistant', content: 'See:', tool_calls }), [
        token('See:'),
        toolCall('c1', 'f'),
        toolArguments('{"a":1}'),
        toolCall('c2', 'f', 1),
        toolArguments('{}', 1),
        finish('tool_calls'),
      ]);
    }
  });

  it('keep the digits of numbers in arguments that are an object, as the deltas of a stream do', () => {
    const args = '{"id":1234567890123456789,"x":[1.0,-0,1e400],"text":"1.0"}';
    const reply = (key: string, calls: string) =>
      `{"choices":[{"index":0,"${key}":{"tool_calls":${calls}},"logprobs":{"content":[{"token":"a","logprob":-1.50}]},"finish_reason":"stop"}]}`;
    const call = (id: string) => `{"id":"${id}","function":{"name":"f","arguments":${args}}}`;
    const body = reply('message', `[${call('c1')},${call('c2')}]`);
    const packed = structuredClone(packResponse(Buffer.from(body))); // As it is sent between threads.
    const streamed = (calls: string) => new StreamReader('chat').push(sse(reply('delta', calls)));
    for (const [events, count] of [
      [readResponse('chat', body), 2],
      [readPackedResponse('chat', packed, new UsageMeter(), 1), 2],
      [streamed(`[${call('c1')},${call('c2')}]`), 2],
      [streamed(call('c1')), 1],
    ] as const) {
      const texts = events.flatMap((event) => (event.type === 'tool-arguments' ? [event.text] : []));
      assert.deepEqual(texts, Array<string>(count).fill(args));
    }
  });

  it('are searched for digits only if arguments are an object', () => {
    const parse = mock.method(JSON, 'parse');
    try {
      const tool_calls = [{ id: 'c1', function: { name: 'f', arguments: '{"a":1.0}' } }];
      assert.deepEqual(readWhole({ content: '1.0', tool_calls })[2], toolArguments('{"a":1.0}'));
      assert.equal(parse.mock.callCount(), 1);
    } finally {
      parse.mock.restore();
    }
  });

  it('have different IDs even if the server repeats one, because a request with the same ID twice is refused', () => {
    const same = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } };
    const events = readWhole({ role: 'assistant', content: null, tool_calls: [same, same] });
    const ids = events.flatMap((event) => (event.type === 'tool-call' ? [event.id] : []));
    assert.equal(ids[0], 'c1');
    assert.equal(new Set(ids).size, 2);
  });

  it('keep arguments that are not JSON', () => {
    const tool_calls = [{ id: 'c1', function: { name: 'f', arguments: '{"a": oops' } }];
    assert.deepEqual(readWhole({ content: null, tool_calls }, 'stop')[1], toolArguments('{"a": oops'));
  });

  it('are counted when the usage is estimated', () => {
    const tool_calls = [{ id: 'c1', function: { name: 'abcd', arguments: '{"a":12}' } }];
    const body = { choices: [{ message: { reasoning: 'abcdefgh', tool_calls }, finish_reason: 'stop' }] };
    const usage = { promptTokens: 0, completionTokens: 5, cachedTokens: 0, reasoningTokens: 2 };
    assert.deepEqual(readResponse('chat', JSON.stringify(body)).at(-1), {
      type: 'end',
      usage,
      usageSource: 'estimated',
    });
  });
});

describe('invalid tool calls', () => {
  const fails = (...calls: unknown[]) => {
    refuses(() => read(...calls.map((call) => delta(call)), end('stop')), 'engine_unavailable', null);
  };

  it('are engine_unavailable if an index, an ID or a name is out of bounds', () => {
    fails('text');
    fails(null);
    for (const index of [-1, 0.5, '0', 2 ** 53]) fails(first('c1', 'f', { index }));
    fails(first('x'.repeat(257), 'f'));
    fails(first('c1', 'x'.repeat(257)));
  });

  it('are engine_unavailable if arguments have no name, or follow the end of a call', () => {
    fails(part('{}'));
    fails(first('c1', null), part('{}'));
    fails(first('c1', 'f'), part('{}'), first('c2', 'g', { index: 1 }), part('{}'));
  });

  it('are engine_unavailable if more than a mebibyte waits for the end of another call', () => {
    const more = part('x'.repeat(600_000), { index: 1 });
    const calls = [first('c1', 'f'), first('c2', 'g', { index: 1 }), more];
    assert.equal(read(...calls.map((call) => delta(call)), end('stop')).length, 5);
    fails(...calls, more);
  });

  it('are engine_unavailable if a choice has more than 128 calls', () => {
    const calls = Array.from({ length: 128 }, (_, index) => first(`c${index}`, 'f', { index }));
    assert.equal(read(delta(...calls), end('stop')).length, 257);
    fails(...calls, first('c128', 'f', { index: 128 }));
  });

  it('are engine_unavailable, or are read as a bounded number of calls with names and arguments', () => {
    const odd = fc.oneof(fc.jsonValue(), fc.string(), fc.constant(''), fc.integer({ min: -1, max: 3 }));
    const called = fc.record({ name: odd, arguments: odd }, { requiredKeys: [] });
    const hostile = fc.oneof(
      odd,
      fc.record({ index: odd, id: odd, type: odd, function: fc.oneof(odd, called) }, { requiredKeys: [] }),
      fc.record(
        { index: fc.nat(2), id: fc.constantFrom('a', 'b', ''), function: called },
        { requiredKeys: [] },
      ),
    );
    const deltas = fc.array(fc.oneof(odd, fc.array(hostile)));
    fc.assert(
      fc.property(deltas, fc.boolean(), (list, cut) => {
        const frames = list.map((tool_calls) => ({ choices: [{ index: 0, delta: { tool_calls } }] }));
        let events: EngineEvent[];
        try {
          events = read(...frames, end(cut ? 'length' : 'stop'));
        } catch (error) {
          assert.ok(error instanceof ServiceError && error.code === 'engine_unavailable', String(error));
          return;
        }
        const calls: { name: string; text: string }[] = [];
        for (const event of events) {
          if (event.type === 'tool-call') {
            assert.equal(event.call, calls.length);
            assert.ok(event.id !== '' && event.name !== '');
            calls.push({ name: event.name, text: '' });
          } else if (event.type === 'tool-arguments') {
            const call = calls.at(-1);
            assert.ok(call && event.call === calls.length - 1 && event.text !== '');
            call.text += event.text;
          }
        }
        assert.ok(cut || calls.every(({ text }) => text !== ''));
      }),
      { numRuns: 500 },
    );
  });
});

it('sends characters that are split between two parts whole, and no half of one', () => {
  const call = (name: string, args: string) =>
    delta({ index: 0, id: 'a', function: { name, arguments: args } });
  const more = (args: string) => delta({ index: 0, function: { arguments: args } });
  const textOf = (events: readonly EngineEvent[]) =>
    events.flatMap((event) => (event.type === 'tool-arguments' ? [event.text] : [])).join('');
  const split = read(call('f', '{"a":"\ud83d'), more('\ude42"}'), end('tool_calls'));
  assert.ok(split.every((event) => event.type !== 'tool-arguments' || event.text.isWellFormed()));
  assert.equal(textOf(split), '{"a":"🙂"}');
  assert.equal(textOf(read(call('f', '{"a":"\ud83d"}'), end('tool_calls'))), '{"a":"\ufffd"}');
  assert.equal(textOf(read(call('f', '{"a":"\ud83d'), end('length'))), '{"a":"');
  const [named] = read(call('f\ud83d', '{}'), end('tool_calls'));
  assert.ok(named?.type === 'tool-call' && named.name === 'f\ufffd');
});
