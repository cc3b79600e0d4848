import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import type { GenerationEvent } from '../../../src/core/generation.ts';
import { ChunkTemplate } from '../../../src/replicas/wire/chunk-template.ts';
import { StreamReader } from '../../../src/replicas/wire/response-reader.ts';

interface ChunkFields {
  choice: number;
  /** Key of the text in the delta. */
  key: 'content' | 'reasoning_content' | 'reasoning';
  text: string;
  usage: boolean;
  /** Number of token IDs; null: the field is missing. */
  ids: number | null;
  /** Whether non-ASCII characters are escaped, as some servers do. */
  escaped: boolean;
  newline: string;
}

const chunkFields: fc.Arbitrary<ChunkFields> = fc.record({
  choice: fc.constantFrom(0, 0, 0, 1),
  key: fc.constantFrom('content', 'content', 'reasoning_content', 'reasoning'),
  text: fc.oneof(
    fc.constantFrom(
      ' word',
      '',
      '"',
      '\\',
      '\n',
      'é',
      '日本',
      '🙂',
      '"content":"',
      '},"finish_reason":"stop"}',
    ),
    fc.string({ unit: 'grapheme', maxLength: 8 }),
  ),
  usage: fc.boolean(),
  ids: fc.constantFrom(null, 1, 1, 1, 0, 2),
  escaped: fc.boolean(),
  newline: fc.constantFrom('\n', '\n', '\n', '\r\n'),
});

function chatChunk({ choice, key, text, usage, ids, escaped, newline }: ChunkFields, count: number): string {
  let literal = JSON.stringify(text);
  if (escaped) literal = literal.replaceAll(/[^\x20-\x7e]/g, escape);
  const details = { completion_tokens_details: { reasoning_tokens: count >> 1 } };
  const counts = { prompt_tokens: 7, completion_tokens: count, total_tokens: 7 + count, ...details };
  const tail = usage ? `,"usage":${JSON.stringify(counts)}` : '';
  const idList =
    ids === null ? '' : `,"token_ids":[${Array.from({ length: ids }, (_, at) => count + at).join(',')}]`;
  const body = `{"id":"c","choices":[{"index":${choice},"delta":{"${key}":${literal}},"finish_reason":null${idList}}]${tail}}`;
  return `data: ${body}${newline}${newline}`;
}

function escape(character: string): string {
  return [...Array(character.length).keys()]
    .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`)
    .join('');
}

const FINISH = [0, 1]
  .map((index) => `data: {"id":"c","choices":[{"index":${index},"delta":{},"finish_reason":"stop"}]}\n\n`)
  .join('');

function readAll(pieces: Iterable<Buffer>): GenerationEvent[] {
  const reader = new StreamReader('chat');
  const events: GenerationEvent[] = [];
  for (const piece of pieces) reader.push(piece, events);
  reader.end(events);
  return events;
}

test('a stream is read the same in whole events (with templates) and in single bytes (without)', () => {
  const stream = fc.tuple(
    fc.array(chunkFields, { minLength: 1, maxLength: 30 }),
    fc.integer({ min: 1, max: 3 }),
  );
  fc.assert(
    fc.property(stream, ([chunks, together]) => {
      // Both choices appear, so that both can finish.
      const opening = [0, 1].map((choice) => ({
        choice,
        key: 'content' as const,
        text: '',
        usage: false,
        ids: null,
        escaped: false,
        newline: '\n',
      }));
      const frames = [...opening, ...chunks].map((chunk, index) => chatChunk(chunk, index));
      const pieces: Buffer[] = [];
      for (let at = 0; at < frames.length; at += together) {
        pieces.push(Buffer.from(frames.slice(at, at + together).join('')));
      }
      pieces.push(Buffer.from(`${FINISH}data: [DONE]\n\n`));
      const bytes = Array.from(Buffer.concat(pieces), (byte) => Buffer.of(byte));
      assert.deepEqual(readAll(pieces), readAll(bytes));
    }),
  );
});

const TOKEN = { type: 'token', choice: 0, text: ' a', completionTokens: 0, logprobs: null } as const;
const DATA = '{"choices":[{"index":0,"delta":{"content":" a"},"finish_reason":null}]}';

function createTemplate(): ChunkTemplate {
  const template = new ChunkTemplate('chat');
  template.learn(DATA, TOKEN, null);
  return template;
}

const frame = (data: string) => Buffer.from(`data: ${data}\n\n`);

test('a chunk that matches the template is read, with any characters in its text', () => {
  for (const text of [' b', 'é', '日本', '🙂'])
    assert.deepEqual(createTemplate().read(frame(DATA.replace(' a', text))), { ...TOKEN, text });
});

test('a chunk that differs from the template outside its text is left to the parser', () => {
  const bytes = frame(DATA);
  const text = bytes.indexOf(' a"');
  for (let at = 0; at < bytes.length; at++) {
    if (at >= text && at < text + 2) continue;
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 1;
    assert.equal(createTemplate().read(changed), null, changed.toString());
    assert.equal(createTemplate().read(bytes.subarray(0, at)), null);
  }
  assert.equal(createTemplate().read(Buffer.concat([bytes, bytes])), null);
});

test('a text that is empty, invalid UTF-8, or has an escape or a control character is left to the parser', () => {
  for (const text of ['\\n', '\\"', '\u0001', ''])
    assert.equal(createTemplate().read(frame(DATA.replace(' a', text))), null);
  const broken = frame(DATA.replace(' a', 'é'));
  broken[broken.indexOf(0xc3)] = 0x61;
  assert.equal(createTemplate().read(broken), null);
});

test('the ID of a token is read, and a chunk without exactly one ID is left to the parser', () => {
  const data = (ids: string) => DATA.replace('null}]', `null,"token_ids":[${ids}]}]`);
  const template = new ChunkTemplate('chat');
  template.learn(data('5'), { ...TOKEN, tokenIds: [5] }, null);
  assert.deepEqual(template.read(frame(data('1234'))), { ...TOKEN, tokenIds: [1234] });
  for (const ids of ['', '1,2', 'null']) assert.equal(template.read(frame(data(ids))), null, ids);
});

test('usage counts are read in any order', () => {
  for (const order of ['completion_tokens', 'total_tokens']) {
    const other = order === 'total_tokens' ? 'completion_tokens' : 'total_tokens';
    const value = (name: string, count: number) => (name === 'total_tokens' ? 7 + count : count);
    const data = (count: number) =>
      `${DATA.slice(0, -1)},"usage":{"prompt_tokens":7,"${order}":${value(order, count)},"${other}":${value(other, count)}}}`;
    const template = new ChunkTemplate('chat');
    template.learn(data(1), TOKEN, {
      promptTokens: 7,
      completionTokens: 1,
      cachedTokens: 0,
      reasoningTokens: 0,
    });
    const read = template.read(frame(data(1234)));
    assert.equal(read?.completionTokens, 1234);
    assert.deepEqual(template.usage, {
      promptTokens: 7,
      completionTokens: 1234,
      cachedTokens: 0,
      reasoningTokens: 0,
    });
  }
});

test('the count of reasoning tokens may change in a chunk of reasoning, but not in a chunk of text', () => {
  for (const type of ['reasoning', 'token'] as const) {
    const key = type === 'reasoning' ? 'reasoning_content' : 'content';
    const data = (count: number) =>
      `{"choices":[{"index":0,"delta":{"${key}":" a"},"finish_reason":null}],"usage":{"prompt_tokens":7,"completion_tokens":${count},"total_tokens":${7 + count},"completion_tokens_details":{"reasoning_tokens":${count}}}}`;
    const usage = (count: number) => ({
      promptTokens: 7,
      completionTokens: count,
      cachedTokens: 0,
      reasoningTokens: count,
    });
    const template = new ChunkTemplate('chat');
    template.learn(data(1), { ...TOKEN, type }, usage(1));
    const read = template.read(frame(data(2)));
    assert.equal(read?.completionTokens, type === 'reasoning' ? 2 : undefined);
    assert.deepEqual(template.usage, usage(type === 'reasoning' ? 2 : 1));
  }
});

test('no template is created from a chunk with log probabilities, or with another `content` before the text', () => {
  for (const [data, token] of [
    [DATA, { ...TOKEN, logprobs: [] }],
    [`{"content":"x","choices":[{"index":0,"delta":{"content":" a"}}]}`, TOKEN],
  ] as const) {
    const template = new ChunkTemplate('chat');
    template.learn(data, token, null);
    assert.equal(template.read(frame(data)), null);
  }
});
