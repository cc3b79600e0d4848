import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from './support/fast-check.ts';
import { imagesOfMessage, type Message } from '../src/core/generation.ts';
import { Notes } from '../src/core/notes.ts';
import { read as readMessages } from './protocols/anthropic/samples.ts';
import { PIXEL } from './images/samples.ts';
import { CALLER, chat } from './protocols/openai/samples.ts';
import { read as readResponses, sealing } from './protocols/responses/samples.ts';

/** A text, and whether an image follows it. */
interface Said {
  text: string;
  hasImage: boolean;
}

interface Turn {
  role: 'assistant';
  /** Empty: none. */
  reasoning: string;
  text: string;
  /** The results of its calls. */
  results: Said[];
}

type Entry = ({ role: 'user' } & Said) | Turn;

interface History {
  /** Empty: none. */
  system: string;
  entries: Entry[];
}

/** Decides for each place whether an empty part is there. */
type Draw = () => boolean;

const never: Draw = () => false;

const text = fc.constantFrom('One', '🙂', ' ', 'a\n\nb');
const orEmpty = fc.oneof(fc.constant(''), text);

const user = fc.record({ role: fc.constant('user' as const), text, hasImage: fc.boolean() });
const result = fc.record({ text: orEmpty, hasImage: fc.boolean() });
const turn = fc.record({
  role: fc.constant('assistant' as const),
  reasoning: orEmpty,
  text: orEmpty,
  results: fc.array(result, { maxLength: 3 }),
});

const histories: fc.Arbitrary<History> = fc
  .record({
    system: orEmpty,
    entries: fc.array(fc.oneof<[typeof user, typeof turn]>(user, turn), { maxLength: 6 }),
  })
  .map(({ system, entries }) => {
    // Two messages of the assistant in a row are one in two languages, and the last one cannot be of the assistant in one.
    const separated = entries.filter((entry, index) => {
      const next = entries[index + 1];
      return entry.role === 'user' || entry.results.length > 0 || next?.role === 'user';
    });
    return { system, entries: [{ role: 'user', text: 'Hi', hasImage: false }, ...separated] };
  });

const callId = (entry: number, call: number): string => `call_${entry}_${call}`;
const each = <T>(condition: boolean, ...parts: T[]): T[] => (condition ? parts : []);
const SYSTEM_ROLES = ['system', 'developer'];
const account = sealing.of('account');
const [, DATA = ''] = PIXEL.split(',');

function inChat({ system, entries }: History, draw: Draw): readonly Message[] {
  const empty = { type: 'text', text: '' };
  const content = ({ text: value, hasImage }: Said) => {
    if (value === '' && !hasImage) return draw() ? [] : draw() ? null : draw() ? [empty] : '';
    if (!hasImage && !draw()) return value;
    const image = { type: 'image_url', image_url: { url: PIXEL } };
    return [
      ...each(draw(), empty),
      ...each(value !== '', { type: 'text', text: value }),
      ...each(draw(), empty),
      ...each(hasImage, image),
      ...each(draw(), empty),
    ];
  };
  const messages = [
    ...SYSTEM_ROLES.flatMap((role) => each(draw(), { role, content: draw() ? '' : [] })),
    ...each(system !== '', { role: 'system', content: system }),
    ...entries.flatMap((entry, at): object[] => {
      if (entry.role === 'user') return [{ role: 'user', content: content(entry) }];
      const { reasoning, results } = entry;
      const called = { type: 'function', function: { name: 'f', arguments: '{}' } };
      return [
        {
          role: 'assistant',
          content: content({ text: entry.text, hasImage: false }),
          ...each(reasoning !== '' || draw(), { reasoning_content: reasoning })[0],
          ...each(draw(), { refusal: draw() ? null : '' })[0],
          tool_calls: results.map((_, call) => ({ id: callId(at, call), ...called })),
        },
        ...results.map((result, call) => ({
          role: 'tool',
          tool_call_id: callId(at, call),
          content: content(result),
        })),
      ];
    }),
  ];
  return chat({ messages }, { ...CALLER, notes: new Notes() }).request.messages;
}

function inResponses({ system, entries }: History, draw: Draw): readonly Message[] {
  const empty = { type: 'input_text', text: '' };
  const content = ({ text: value, hasImage }: Said) => [
    ...each(draw(), empty),
    ...each(value !== '', { type: 'input_text', text: value }),
    ...each(draw(), empty),
    ...each(hasImage, { type: 'input_image', image_url: PIXEL }),
    ...each(draw(), empty),
  ];
  const noThought = () =>
    each(draw(), {
      type: 'reasoning',
      ...each(draw(), { summary: draw() ? null : [] })[0],
      ...each(draw(), { content: draw() ? [] : [{ type: 'reasoning_text', text: '' }] })[0],
      ...each(draw(), { encrypted_content: draw() ? '' : null })[0],
    });
  const input = [
    ...noThought(),
    ...SYSTEM_ROLES.flatMap((role) => each(draw(), { role, content: draw() ? '' : [] })),
    ...each(system !== '', { role: 'developer', content: system }),
    ...entries.flatMap((entry, at): object[] => {
      if (entry.role === 'user') return [...noThought(), { role: 'user', content: content(entry) }];
      const { reasoning, results } = entry;
      const isEmpty = reasoning === '' && entry.text === '' && results.length === 0;
      const thought = draw()
        ? { content: [{ type: 'reasoning_text', text: reasoning }], encrypted_content: '' }
        : { summary: [], encrypted_content: account.seal(reasoning) };
      return [
        ...noThought(),
        ...each(reasoning !== '', { type: 'reasoning', ...thought }),
        ...noThought(),
        ...each(entry.text !== '' || isEmpty || draw(), {
          role: 'assistant',
          content: content({ text: entry.text, hasImage: false }),
        }),
        ...results.map((_, call) => ({
          type: 'function_call',
          call_id: callId(at, call),
          name: 'f',
          arguments: '{}',
        })),
        ...results.map((result, call) => ({
          type: 'function_call_output',
          call_id: callId(at, call),
          output: result.text === '' && !result.hasImage && draw() ? null : content(result),
        })),
      ];
    }),
    ...noThought(),
  ];
  return readResponses({ instructions: draw() ? '' : null, input }).messages;
}

function inMessages({ system, entries }: History, draw: Draw): readonly Message[] {
  const empty = { type: 'text', text: '' };
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: DATA } };
  const content = ({ text: value, hasImage }: Said) => [
    ...each(draw(), empty),
    ...each(value !== '', { type: 'text', text: value }),
    ...each(draw(), empty),
    ...each(hasImage, image),
    ...each(draw(), empty),
  ];
  const messages = [
    ...each(draw(), { role: 'system', content: draw() ? '' : [empty] }),
    ...entries.flatMap((entry, at): object[] => {
      if (entry.role === 'user') return [{ role: 'user', content: content(entry) }];
      const { reasoning, results } = entry;
      const blocks = [
        ...each(draw(), { type: 'thinking', thinking: '' }),
        ...each(reasoning !== '', { type: 'thinking', thinking: '', signature: account.seal(reasoning) }),
        ...content({ text: entry.text, hasImage: false }),
        ...results.map((_, call) => ({ type: 'tool_use', id: callId(at, call), name: 'f', input: {} })),
      ];
      const resultBlocks = results.map((result, call) => ({
        type: 'tool_result',
        tool_use_id: callId(at, call),
        content: result.text === '' && !result.hasImage && draw() ? null : content(result),
      }));
      return [
        { role: 'assistant', content: blocks.length === 0 && draw() ? null : blocks },
        ...each(results.length > 0, {
          role: 'user',
          content: [...each(draw(), empty), ...resultBlocks, ...each(draw(), empty)],
        }),
      ];
    }),
  ];
  const padded = [...each(draw(), empty), { type: 'text', text: system }, ...each(draw(), empty)];
  return readMessages({ system: system === '' && !draw() ? null : padded, messages }).messages;
}

/** Returns messages without the paths of images, which differ between languages. */
function comparable(messages: readonly Message[]): unknown[] {
  return messages.map((message) => {
    const images = imagesOfMessage(message).map((image) => ({ ...image, path: '' }));
    return images.length === 0 ? message : { ...message, images };
  });
}

test('the same history is the same in each language, and empty parts change nothing', () => {
  fc.assert(
    fc.property(histories, fc.infiniteStream(fc.boolean()), (history, stream) => {
      const draw: Draw = () => stream.next().value;
      const expected = comparable(inChat(history, never));
      for (const encode of [inChat, inResponses, inMessages]) {
        assert.deepEqual(comparable(encode(history, never)), expected, `${encode.name}, plain`);
        assert.deepEqual(comparable(encode(history, draw)), expected, `${encode.name}, padded`);
      }
    }),
    { numRuns: 300 },
  );
});

test('a part of a result that models cannot read becomes a text with a note, because agents send it again and again', () => {
  const left = '[left out: only text and images are read]';
  const call = { id: '1', type: 'function', function: { name: 'f', arguments: '{}' } };
  const notes = new Notes();
  const inChat = chat(
    {
      messages: [
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: '1', content: [{ type: 'file', file: { file_id: 'f' } }] },
      ],
    },
    { ...CALLER, notes },
  );
  const inResponses = readResponses({
    input: [
      { type: 'function_call', call_id: '1', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: '1', output: [{ type: 'input_file', file_id: 'f' }] },
    ],
  });
  const pdf = { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERg' } };
  const inMessages = readMessages({
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [{ type: 'tool_use', id: '1', name: 'f', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: '1', content: [pdf] }] },
    ],
  });
  for (const messages of [inChat.request.messages, inResponses.messages, inMessages.messages])
    assert.equal(messages.at(-1)?.content, left);
  const what = 'left out (only text and images are read)';
  assert.deepEqual(
    [notes.header(), ...inResponses.notes, ...inMessages.notes],
    [
      `messages[1].content[0] ${what}`,
      `input[1].output[0] ${what}`,
      `messages[2].content[0].content[0] ${what}`,
    ],
  );
});

test('a file is refused in the newest message of the user, and left out of earlier ones and beside results', () => {
  const pdf = { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERg' } };
  const later = [
    { role: 'assistant', content: 'No.' },
    { role: 'user', content: 'Hi' },
  ];
  const cases: [language: (messages: object[]) => readonly Message[], part: object][] = [
    [
      (messages) => chat({ messages }, { ...CALLER, notes: new Notes() }).request.messages,
      { type: 'file', file: { file_id: 'f' } },
    ],
    [(input) => readResponses({ input }).messages, { type: 'input_file', file_id: 'f' }],
    [(messages) => readMessages({ messages }).messages, pdf],
  ];
  const left = '[left out: only text and images are read]';
  for (const [read, part] of cases) {
    const file = { role: 'user', content: [part] };
    assert.throws(() => read([...later, file]), { code: 'unsupported_parameter' });
    assert.deepEqual(
      read([file, ...later]).map(({ content }) => content),
      [left, 'No.', 'Hi'],
    );
  }
  const beside = readMessages({
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [{ type: 'tool_use', id: '1', name: 'f', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: '1', content: 'Read.' }, pdf] },
    ],
  });
  assert.equal(beside.messages.at(-1)?.content, left);
});
