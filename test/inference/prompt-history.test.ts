import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import type { ChatRequest, Message, Tool } from '../../src/core/generation.ts';
import { fingerprintOf, MAX_PIECES } from '../../src/inference/fingerprint.ts';
import { PromptHistory, type CacheMiss, type SentRequest } from '../../src/inference/prompt-history.ts';
import { chat, text } from '../engine/requests.ts';

/** Returns a text of this many tokens, which begins with a word. */
function long(word: string, tokens = 400): string {
  return word.padEnd(4 * tokens, '.');
}

function tool(name: string): Tool {
  return { name, description: long(name), parameters: {}, strict: false };
}

const system = (content: string): Message => ({ role: 'system', content });
const user = (content: string): Message => ({ role: 'user', content });
const assistant = (content: string): Message => ({
  role: 'assistant',
  content,
  reasoning: null,
  toolCalls: [],
});

const TOOLS = [tool('read'), tool('write'), tool('search')];
const RULES = system(['You are an agent.', long('Rule one.'), long('Rule two.')].join('\n'));
const TASK = user(long('Do it.'));
const DONE = assistant(long('It is done.'));
const MORE = user(long('Do more.'));

interface Conversation extends Partial<Omit<SentRequest, 'request'>> {
  messages: readonly Message[];
  tools?: readonly Tool[];
  more?: Partial<ChatRequest>;
  cachedTokens?: number;
}

/** A history of one account, where each request begins a second after the one before has ended. */
class Requests {
  readonly history = new PromptHistory();
  #atMs = 0;

  /** Sends a chat. As many tokens of its prompt are cached as given, otherwise all. */
  send({
    messages,
    tools = [],
    more = {},
    cachedTokens = Infinity,
    ...sent
  }: Conversation): CacheMiss | null {
    const request = chat({}, { cacheScope: 'scope', messages, tools, ...more });
    const { length } = fingerprintOf(request);
    const promptTokens = Math.ceil(length / 4);
    const startedAtMs = (this.#atMs += 1000);
    const endedAtMs = (this.#atMs += 1000);
    return this.history.add({
      accountId: 'acme',
      request,
      replica: 'a',
      isOwnEngine: true,
      usage: {
        promptTokens,
        cachedTokens: Math.min(cachedTokens, promptTokens),
        completionTokens: 1,
        reasoningTokens: 0,
      },
      startedAtMs,
      endedAtMs,
      ...sent,
    });
  }
}

/** Asserts the place and the approximate tokens of a miss. */
function assertMiss(miss: CacheMiss | null, at: string, tokens: number): void {
  assert.equal(miss?.at, at);
  assert.ok(Math.abs(miss.tokens - tokens) <= 0.1 * tokens, `${miss.tokens} tokens instead of ${tokens}`);
}

test('a conversation that continues and is cached has no miss', () => {
  const requests = new Requests();
  assert.equal(requests.send({ messages: [RULES, TASK], tools: TOOLS, cachedTokens: 0 }), null);
  const messages = [RULES, TASK, DONE, MORE];
  assert.equal(requests.send({ messages, tools: TOOLS, cachedTokens: 2400 }), null);
});

test('tools that change, are added, left out or reordered are named', () => {
  const [read, write, search] = TOOLS as [Tool, Tool, Tool];
  const changes: readonly (readonly [tools: readonly Tool[], reusable: number, cached: number])[] = [
    [[tool('read2'), write, search], 800, 0],
    [[write, read, search], 1200, 0],
    [[read, write], 0, 800],
    [[read, write, search, tool('new')], 0, 1200],
  ];
  for (const [tools, more, cachedTokens] of changes) {
    const requests = new Requests();
    requests.send({ messages: [RULES, TASK], tools: TOOLS });
    // The rules and the task come after the tools.
    const miss = requests.send({ messages: [RULES, TASK, DONE, MORE], tools, cachedTokens });
    assertMiss(miss, 'tools', more + 1200);
    assert.equal(miss?.afterMs, 2000);
  }
});

test('a request without the tools of a conversation, such as to summarize it, has a miss', () => {
  const requests = new Requests();
  const tools = Array.from({ length: 10 }, (_, index) => tool(`tool ${index}`));
  requests.send({ messages: [RULES, TASK, DONE], tools });
  assertMiss(
    requests.send({ messages: [RULES, TASK, DONE, user('Summarize')], cachedTokens: 0 }),
    'tools',
    1600,
  );
});

test('a line of the system message that changes is named, in a new conversation too', () => {
  const dated = (time: string) => system(`Now: ${time}\n${long('Rule one.')}\n${long('Rule two.')}`);
  const requests = new Requests();
  requests.send({ messages: [dated('12:00'), TASK] });
  assertMiss(requests.send({ messages: [dated('12:00:01'), MORE], cachedTokens: 0 }), 'system', 800);
});

test('a change at the start is named, whether the template writes the tools or the system message first', () => {
  const tools = Array.from({ length: 10 }, (_, index) => tool(`tool ${index}`));
  const dated = (time: string) => system(`Now: ${time}\n${long('Rule one.')}`);
  const requests = new Requests();
  requests.send({ messages: [dated('12:00'), TASK], tools });
  // The template has the system message before the tools.
  const changed = requests.send({ messages: [dated('12:01'), MORE], tools, cachedTokens: 10 });
  assertMiss(changed, 'system', 4400);
});

test('a message that changes before others is named by its role and number', () => {
  const turns = [RULES, TASK, DONE, MORE, assistant(long('More is done.'))];
  for (const [index, name] of [
    [1, 'user 1'],
    [2, 'assistant 1'],
    [3, 'user 2'],
  ] as const) {
    const requests = new Requests();
    requests.send({ messages: turns });
    const changed = turns.with(index, { ...turns[index], content: long('Something else.') } as Message);
    const miss = requests.send({ messages: [...changed, user('Next')], cachedTokens: 400 * (index + 1) });
    assertMiss(miss, name, 400 * (4 - index));
  }
});

test('an early message that is left out is named by the one in its place', () => {
  const requests = new Requests();
  const turns = [RULES, TASK, DONE, MORE, assistant(long('More is done.'))];
  requests.send({ messages: turns });
  const miss = requests.send({ messages: [RULES, ...turns.slice(3), user('Next')], cachedTokens: 800 });
  assertMiss(miss, 'user 1', 800);
});

test('a call whose ID changes is named', () => {
  const call = (id: string): Message[] => [
    { role: 'assistant', content: '', reasoning: null, toolCalls: [{ id, name: 'read', arguments: '{}' }] },
    { role: 'tool', toolCallId: id, content: long('The file.') },
  ];
  const requests = new Requests();
  requests.send({ messages: [RULES, TASK, ...call('1'), DONE] });
  const messages = [RULES, TASK, ...call('2'), DONE, user('Next')];
  assertMiss(requests.send({ messages, cachedTokens: 1200 }), 'assistant 1', 400);
});

test('a branch of a conversation has no miss, because nothing that follows is the same', () => {
  const requests = new Requests();
  requests.send({ messages: [RULES, TASK, DONE, MORE] });
  const other = user(long('Do something else.'));
  assert.equal(requests.send({ messages: [RULES, TASK, DONE, other], cachedTokens: 1600 }), null);
});

test('a prompt that has little in common with another one is not a changed version of it', () => {
  const requests = new Requests();
  const shared = long('A paragraph that all agents have.', 200);
  requests.send({ messages: [system(`${long('Agent one.')}\n${shared}`), TASK] });
  const miss = requests.send({
    messages: [system(`${long('Agent two.')}\n${shared}`), MORE],
    cachedTokens: 0,
  });
  assert.equal(miss, null);
});

test('an equal start that is not cached is the fault of the replica, of another one, or of the options', () => {
  const messages = [RULES, TASK, DONE, MORE];
  const tokens = 2400;
  const send = (second: Partial<Conversation>): CacheMiss | null => {
    const requests = new Requests();
    requests.send({ messages, tools: TOOLS });
    return requests.send({ messages: [...messages, user('Next')], tools: TOOLS, cachedTokens: 0, ...second });
  };
  assertMiss(send({}), 'replica', tokens + 800);
  assertMiss(send({ replica: 'b' }), 'other_replica', tokens + 800);
  assertMiss(send({ more: { reasoningEffort: 'low' } }), 'options', tokens + 800);
  assert.equal(send({ more: { reasoningEffort: 'low' }, cachedTokens: tokens + 800 }), null);
});

test('an earlier version of a conversation does not explain why its last version is not cached', () => {
  const requests = new Requests();
  const [read, write, search] = TOOLS as [Tool, Tool, Tool];
  const messages = [RULES, TASK, DONE, MORE];
  requests.send({ messages, tools: TOOLS });
  requests.send({ messages, tools: [write, read, search] });
  const last = [...messages, assistant('Done.'), user('Next')];
  const evicted = requests.send({ messages: last, tools: [write, read, search], cachedTokens: 0 });
  assertMiss(evicted, 'replica', 3200);
  assert.equal(evicted?.afterMs, 2000);
});

test('a replica that never reported cached tokens is not blamed, unless it is an engine of this program', () => {
  const requests = new Requests();
  const messages = [RULES, TASK, DONE, MORE];
  const other = { messages, tools: TOOLS, isOwnEngine: false, replica: 'vllm' };
  requests.send({ ...other, cachedTokens: 0 });
  assert.equal(requests.send({ ...other, cachedTokens: 0 }), null);
  requests.send(other);
  assertMiss(requests.send({ ...other, cachedTokens: 0 }), 'replica', 3200);
});

/** Returns a message with an image. */
function image(digest: string): Message {
  const images = [{ at: 0, url: '', detail: null, digest, file: null, path: '' }];
  return { role: 'user', content: 'What is this?', images };
}

test('a start that is cached is not lost, although the text after it has more tokens for its length', () => {
  const pairs: readonly (readonly [Message, Message])[] = [
    [user('1'.repeat(2000)), user('2'.repeat(2000))],
    [user('一'.repeat(2000)), user('二'.repeat(2000))],
    [image('one'), image('two')],
  ];
  for (const [first, second] of pairs) {
    const requests = new Requests();
    const instructions = system(long('Answer in one sentence.', 100));
    const usage = { promptTokens: 2100, completionTokens: 1, reasoningTokens: 0 };
    requests.send({ messages: [instructions, first], usage: { ...usage, cachedTokens: 0 } });
    const messages = [instructions, second];
    assert.equal(requests.send({ messages, usage: { ...usage, cachedTokens: 100 } }), null);
  }
});

test('instructions of which a line changes are not as long as the image after them', () => {
  const requests = new Requests();
  const usage = { promptTokens: 2100, cachedTokens: 0, completionTokens: 1, reasoningTokens: 0 };
  for (const time of ['12:00', '12:01']) {
    const instructions = system(`Now: ${time}\n${long('Answer in one sentence.', 100)}`);
    assert.equal(requests.send({ messages: [instructions, image(time)], usage }), null);
  }
});

test('short losses are not told, and longer ones of other servers neither', () => {
  const requests = new Requests();
  const short = [user(long('Hi', 100))];
  requests.send({ messages: short });
  assert.equal(requests.send({ messages: short, cachedTokens: 0 }), null);
  requests.send({ messages: [RULES, TASK], isOwnEngine: false });
  assert.equal(
    requests.send({ messages: [RULES, TASK, DONE], cachedTokens: 1000, isOwnEngine: false }),
    null,
  );
});

test('a prompt that was still being computed cannot have been reused', () => {
  const requests = new Requests();
  requests.send({ messages: [RULES, TASK], endedAtMs: 5000 });
  assert.equal(requests.send({ messages: [RULES, TASK], cachedTokens: 0 }), null);
});

test('text completions and requests without a cache are not remembered', () => {
  const history = new PromptHistory();
  const usage = { promptTokens: 1000, cachedTokens: 0, completionTokens: 1, reasoningTokens: 0 };
  const sent = { accountId: 'acme', replica: 'a', isOwnEngine: true, usage, startedAtMs: 0, endedAtMs: 1 };
  const request = text({}, { prompts: [long('Once')], cacheScope: 'scope' });
  assert.equal(history.add({ ...sent, request }), null);
  assert.equal(history.add({ ...sent, request: chat({}, { messages: [TASK], cacheScope: null }) }), null);
  assert.equal(history.bytes, 0);
});

const message = fc.oneof(
  fc.string({ maxLength: 40 }).map(user),
  fc.string({ maxLength: 40 }).map(assistant),
  fc.array(fc.string({ maxLength: 20 }), { maxLength: 5 }).map((lines) => system(lines.join('\n'))),
);
const messages = fc.array(message, { minLength: 1, maxLength: 8 });

test('a fingerprint has only numbers, and its pieces cover the prompt', () => {
  fc.assert(
    fc.property(messages, fc.array(fc.string().map(tool), { maxLength: 3 }), (list, tools) => {
      const prompt = fingerprintOf(chat({}, { messages: list, tools }));
      for (const value of Object.values(prompt)) {
        assert.ok(typeof value === 'number' || value instanceof Float64Array);
      }
      assert.equal(prompt.hashes.length, prompt.lengths.length);
      assert.ok(prompt.hashes.every(Number.isSafeInteger));
      assert.equal(
        prompt.lengths.reduce((sum, length) => sum + length, 0),
        prompt.length,
      );
    }),
  );
});

test('equal prompts have equal fingerprints, and others differ from the first piece that differs on', () => {
  const characters = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20_000 });
  fc.assert(
    fc.property(fc.array(characters, { maxLength: 3 }), characters, characters, (start, one, other) => {
      fc.pre(one !== other);
      const hashes = (last: string) => [
        ...fingerprintOf(chat({}, { messages: [...start, last].map(user) })).hashes,
      ];
      const [first, second] = [hashes(one), hashes(other)];
      assert.deepEqual(first, hashes(one));
      assert.deepEqual(first.slice(0, -1), second.slice(0, -1));
      assert.notEqual(first.at(-1), second.at(-1));
    }),
    { numRuns: 50 },
  );
});

test('the loss is never more than the prompt tokens that were not cached', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ messages, cachedTokens: fc.nat({ max: 400 }) }), { maxLength: 12 }),
      fc.array(fc.constantFrom(RULES, TASK, DONE, MORE), { minLength: 1, maxLength: 5 }),
      (sent, common) => {
        const requests = new Requests();
        for (const one of sent) {
          const list = [...common, ...one.messages];
          const miss = requests.send({ ...one, messages: list });
          const promptTokens = Math.ceil(fingerprintOf(chat({}, { messages: list })).length / 4);
          if (miss === null) continue;
          assert.ok(miss.tokens >= 128 && miss.tokens <= promptTokens - one.cachedTokens);
          assert.ok(miss.afterMs > 0);
        }
      },
    ),
  );
});

test('prompts of another account or model are never compared', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom('a', 'b'), fc.constantFrom('m', 'n')), { maxLength: 20 }),
      (callers) => {
        const requests = new Requests();
        const seen = new Set<string>();
        for (const [accountId, model] of callers) {
          const miss = requests.send({ messages: [TASK], more: { model }, accountId, cachedTokens: 0 });
          assert.equal(miss?.at, seen.has(accountId + model) ? 'replica' : undefined);
          seen.add(accountId + model);
        }
      },
    ),
  );
});

test('the memory is bounded by prompts per account, by pieces per prompt and by bytes', () => {
  const one = chat({}, { messages: Array.from({ length: 10 }, (_, index) => user(`${index}`)) });
  const many = { ...one, messages: Array.from({ length: 3 * MAX_PIECES }, () => user('x')) };
  assert.equal(fingerprintOf(many).hashes.length, MAX_PIECES);
  assert.equal(fingerprintOf(many).length, many.messages.length);
  const rules = { ...one, messages: Array.from({ length: 10 }, () => system('x\n'.repeat(MAX_PIECES))) };
  assert.equal(fingerprintOf(rules).hashes.length, MAX_PIECES);
  assert.equal(fingerprintOf(rules).length, 2 * 10 * MAX_PIECES);
  const lines = { ...one, messages: [system('line\n'.repeat(5 * MAX_PIECES))] };
  assert.equal(fingerprintOf(lines).hashes.length, MAX_PIECES / 2);

  const requests = new Requests();
  for (let index = 0; index < 100; index++) requests.send({ messages: [user(long(`Task ${index}`))] });
  const ofOne = requests.history.bytes;
  for (let index = 0; index < 100; index++) requests.send({ messages: [user(long(`Other ${index}`))] });
  assert.equal(requests.history.bytes, ofOne);

  const history = new PromptHistory(10_000);
  const usage = { promptTokens: 1000, cachedTokens: 0, completionTokens: 1, reasoningTokens: 0 };
  const add = (accountId: string, content: string): CacheMiss | null => {
    const request = chat({}, { messages: [user(content)], cacheScope: 'scope' });
    return history.add({
      accountId,
      request,
      replica: 'a',
      isOwnEngine: true,
      usage,
      startedAtMs: 1,
      endedAtMs: 0,
    });
  };
  for (let index = 0; index < 500; index++) {
    add(`account ${index}`, 'Hi');
    assert.ok(history.bytes <= 10_000);
  }
  // The account that was used last is remembered, and the first one is not.
  assert.equal(add('account 499', 'Hi')?.at, 'replica');
  assert.equal(add('account 0', 'Hi'), null);
});

test('a conversation counts once, however long it becomes', () => {
  const requests = new Requests();
  const turns: Message[] = [RULES];
  for (let index = 0; index < 50; index++) {
    turns.push(user(long(`Task ${index}`)));
    requests.send({ messages: turns });
  }
  assert.ok(requests.history.bytes < 2000);
});
