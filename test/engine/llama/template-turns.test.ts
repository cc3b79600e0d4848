import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import type { Message, Tool } from '../../../src/core/generation.ts';
import { promptTokenBounds } from '../../../src/core/prompt-bound.ts';
import type { RenderedRequest } from '../../../src/engine/llama/prompt/template-probe.ts';
import { ChatTemplate } from '../../../src/engine/llama/prompt/template.ts';
import { chat } from '../requests.ts';
import { PUBLISHED } from './templates.ts';

/** A message of a chat. `call` and `text+call` are messages with calls, followed by the results. */
type Turn = 'system' | 'user' | 'assistant' | 'empty' | 'reasoning' | 'call' | 'text+call';

const TURNS = ['system', 'user', 'assistant', 'empty', 'reasoning', 'call', 'text+call'] as const;

/** What clients send: several system messages, instructions after a result, interrupted answers. */
const CHATS: readonly (readonly Turn[])[] = [
  ['system'],
  ['system', 'user'],
  ['system', 'system', 'user'],
  ['system', 'user', 'assistant', 'system', 'user'],
  ['user', 'system'],
  ['user', 'assistant', 'system'],
  ['user', 'user'],
  ['user', 'assistant', 'user', 'user'],
  ['assistant', 'user'],
  ['system', 'assistant', 'user'],
  ['user', 'assistant', 'assistant', 'user'],
  ['user', 'assistant'],
  ['user', 'empty', 'user'],
  ['user', 'reasoning', 'user'],
  ['user', 'call', 'user'],
  ['system', 'user', 'call'],
  ['system', 'user', 'text+call', 'text+call', 'assistant', 'user'],
  ['user', 'call', 'system', 'text+call', 'system', 'assistant', 'user'],
];

/** Returns the chat, and its texts in order. */
function chatOf(turns: readonly Turn[], hasTools: boolean): { request: RenderedRequest; texts: string[] } {
  const texts: string[] = [];
  const text = (): string => texts[texts.push(`Text ${texts.length}.`) - 1] ?? '';
  const reasoning = 'Hmm, well.';
  const messages = turns.flatMap((turn, index): Message[] => {
    switch (turn) {
      case 'system':
      case 'user':
        return [{ role: turn, content: text() }];
      case 'assistant':
        return [{ role: 'assistant', content: text(), reasoning: null, toolCalls: [] }];
      case 'empty':
        return [{ role: 'assistant', content: '', reasoning: null, toolCalls: [] }];
      case 'reasoning':
        return [{ role: 'assistant', content: text(), reasoning, toolCalls: [] }];
      case 'call':
      case 'text+call': {
        // Calls of other messages can have the same IDs.
        const ids = [`call_${index % 3}`, `call_${(index + 1) % 3}`];
        const content = turn === 'call' ? null : text();
        const toolCalls = ids.map((id) => ({ id, name: 'find', arguments: JSON.stringify({ q: text() }) }));
        const results = ids.map((id): Message => ({ role: 'tool', toolCallId: id, content: text() }));
        return [
          { role: 'assistant', content, reasoning: index % 2 ? reasoning : null, toolCalls },
          ...results,
        ];
      }
    }
  });
  const request: RenderedRequest = {
    messages,
    tools: hasTools ? [FIND] : [],
    toolChoice: { type: 'auto' },
    reasoningEffort: null,
    templateVariables: {},
  };
  return { request, texts };
}

const FIND: Tool = {
  name: 'find',
  description: 'Finds it.',
  parameters: { type: 'object', properties: { q: { type: 'string' } } },
  strict: false,
};

/** A chat with many calls. */
const LONG_CHAT: readonly Turn[] = ['user', ...Array<Turn>(20).fill('call'), 'user'];

describe('the chat templates of models', { skip: PUBLISHED.length === 0 }, () => {
  const templates = PUBLISHED.map(({ name, source }) => ({
    name,
    template: new ChatTemplate(source, { bos: '<s>', eos: '</s>' }),
  }));

  /** Checks that the prompt has every text of the chat. */
  const check = ({ name, template }: (typeof templates)[number], turns: readonly Turn[], tools: boolean) => {
    const { request, texts } = chatOf(turns, tools);
    const prompt = template
      .render(request)
      .segments.map((segment) => segment.text)
      .join('');
    if (tools) texts.push('Finds it.');
    const lost = texts.filter((text) => !prompt.includes(text));
    assert.deepEqual(lost, [], `${name} loses texts of ${turns.join(', ')}`);
  };

  for (const turns of CHATS) {
    it(`render every message of the chat: ${turns.join(', ')}`, () => {
      const hasCalls = turns.some((turn) => turn.endsWith('call'));
      for (const each of templates) {
        for (const tools of hasCalls ? [true] : [false, true]) check(each, turns, tools);
      }
    });
  }

  it('render tools without a description, or with one word, in every chat', () => {
    for (const description of [null, '', 'Measures']) {
      const tools = [{ ...FIND, name: 'measure', description }];
      for (const { name, template } of templates) {
        for (const turns of CHATS) {
          const { segments } = template.render({ ...chatOf(turns, true).request, tools });
          const prompt = segments.map(({ text }) => text).join('');
          assert.ok(prompt.includes('measure'), `${name} loses the tools of ${turns.join(', ')}`);
        }
      }
    }
  });

  it('add fewer tokens to a chat than the upper bound of prompt tokens assumes', () => {
    for (const { name, template } of templates) {
      for (const turns of [...CHATS, LONG_CHAT]) {
        const { request } = chatOf(turns, true);
        const { segments } = template.render(request);
        // A token of a template has about four bytes.
        const tokens = Buffer.byteLength(segments.map(({ text }) => text).join('')) / 3;
        const [bound = 0] = promptTokenBounds(chat({}, request));
        assert.ok(
          tokens <= bound,
          `${name} adds more than ${bound} tokens to ${turns.join(', ')}: ${tokens}`,
        );
      }
    }
  });

  it('render every message of any chat', () => {
    // A call answers the user, and an empty message has no text.
    const anyTurns = fc
      .array(fc.constantFrom(...TURNS), { minLength: 1, maxLength: 8 })
      .map((turns): Turn[] => [turns[0] === 'system' ? 'system' : 'user', ...turns])
      .map((turns): Turn[] => (turns.includes('user') ? turns : [...turns, 'user']));
    fc.assert(
      fc.property(fc.constantFrom(...templates), anyTurns, fc.boolean(), (each, turns, tools) => {
        if (turns.every((turn) => turn === 'empty')) return;
        check(each, turns, tools || turns.some((turn) => turn.endsWith('call')));
      }),
      { numRuns: 300 },
    );
  });
});
