import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { ChoiceOutput, type ChoicePart } from '../../../src/engine/llama/output/choice-output.ts';
import { CharacterAssembler, withAnchor } from '../../../src/engine/llama/prompt/character-assembler.ts';
import { GENERIC } from '../../../src/engine/llama/tool-calls/json-formats.ts';

/** Creates the output of a choice without tools and reasoning. The tokens of its vocabulary are these pieces. */
function outputOf(pieces: readonly Uint8Array[], stop: readonly string[]): ChoiceOutput {
  const text = (tokens: Uint32Array): string =>
    decode(Array.from(tokens, (token) => pieces[token] ?? new Uint8Array()));
  const vocabulary = { text, textWithControls: text, isControl: () => false };
  const parsing = { format: null, reasoning: null, insideReasoning: false, tools: [], oneCall: false };
  return new ChoiceOutput({ vocabulary, stop, ...parsing });
}

function textOf(parts: readonly ChoicePart[]): string {
  return parts.map((part) => (part.type === 'text' ? part.text : assert.fail(part.type))).join('');
}

function decode(pieces: readonly Uint8Array[]): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Buffer.concat(pieces));
}

function cutAtFirstStop(
  text: string,
  stops: readonly string[],
): { text: string; stopSequence: string | null } {
  for (let end = 1; end <= text.length; end += 1) {
    const complete = stops.filter((stop) => text.slice(0, end).endsWith(stop));
    const [longest] = complete.toSorted((a, b) => b.length - a.length);
    if (longest !== undefined) return { text: text.slice(0, end - longest.length), stopSequence: longest };
  }
  return { text, stopSequence: null };
}

/** Returns the length of the longest suffix of `text` that starts a stop sequence. */
function heldBackLength(text: string, stops: readonly string[]): number {
  const starts = stops.flatMap((stop) => Array.from({ length: stop.length }, (_, end) => stop.slice(0, end)));
  return Math.max(0, ...starts.filter((start) => text.endsWith(start)).map((start) => start.length));
}

function pushAll(pieces: readonly Uint8Array[], stop: readonly string[]): string[] {
  const output = outputOf(pieces, stop);
  return [...pieces.map((_, token) => textOf(output.push(token, null))), textOf(output.flush())];
}

function bytes(...texts: string[]): Uint8Array[] {
  return texts.map((text) => Buffer.from(text));
}

/** Few different characters, of one to four bytes, so that stop sequences match, overlap and repeat. */
const text = fc
  .array(fc.constantFrom('a', 'b', 'c', 'é', '€', '😀', '\uFFFD'))
  .map((characters) => characters.join(''));
const stops = fc.array(
  fc
    .array(fc.constantFrom('a', 'b', 'é', '😀'), { minLength: 1, maxLength: 5 })
    .map((parts) => parts.join('')),
  { maxLength: 4 },
);

function splitRandomly(whole: Uint8Array): fc.Arbitrary<Uint8Array[]> {
  return fc.array(fc.nat({ max: whole.length })).map((cuts) => {
    const ends = [...cuts.sort((a, b) => a - b), whole.length];
    return ends.map((end, i) => whole.subarray(ends[i - 1] ?? 0, end)).filter((piece) => piece.length > 0);
  });
}

const pieces = text.chain((whole) => splitRandomly(Buffer.from(whole)));

describe('the output of a choice without tools and reasoning', () => {
  it('returns the text before the first complete stop sequence and this sequence, for any tokens', () => {
    fc.assert(
      fc.property(pieces, stops, (tokens, stop) => {
        const output = outputOf(tokens, stop);
        const parts = tokens.flatMap((_, token) => output.push(token, null));
        const text = textOf([...parts, ...output.flush()]);
        const expected = cutAtFirstStop(decode(tokens), stop);
        assert.deepEqual({ text, stopSequence: output.stopSequence }, expected);
      }),
      { numRuns: 2000 },
    );
  });

  it('only holds back the start of a stop sequence and an incomplete character', () => {
    fc.assert(
      fc.property(pieces, stops, (tokens, stop) => {
        const output = outputOf(tokens, stop);
        let out = '';
        for (const token of tokens.keys()) {
          out += textOf(output.push(token, null));
          if (output.stopSequence !== null) return;
          const decoded = decode(tokens.slice(0, token + 1)).replace(/\uFFFD$/, '');
          assert.equal(out, decoded.slice(0, decoded.length - heldBackLength(decoded, stop)));
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('returns the log probabilities of exactly the tokens of the text, with the text', () => {
    fc.assert(
      fc.property(pieces, stops, (tokens, stop) => {
        const output = outputOf(tokens, stop);
        const released: string[] = [];
        let out = '';
        const receive = (parts: readonly ChoicePart[]): void => {
          for (const part of parts) {
            assert.ok(part.type === 'text');
            out += part.text;
            released.push(...part.logprobs.map(({ token }) => token));
          }
          const covered = decode(tokens.slice(0, released.length));
          assert.ok(covered.startsWith(out), 'the log probabilities are behind the text');
          const before = decode(tokens.slice(0, Math.max(0, released.length - 1))).replace(/\uFFFD$/, '');
          assert.ok(released.length === 0 || before.length < out.length, 'they are ahead of the text');
        };
        for (const token of tokens.keys())
          receive(output.push(token, { token: String(token), logprob: -1, bytes: null, top: [] }));
        receive(output.flush());
        assert.deepEqual(
          released,
          released.map((_, token) => String(token)),
        );
      }),
      { numRuns: 2000 },
    );
  });

  it('decodes invalid bytes like a UTF-8 decoder, for any tokens', () => {
    const junk = fc.array(fc.constantFrom(0x61, 0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 0xff));
    fc.assert(
      fc.property(
        junk.chain((whole) => splitRandomly(Uint8Array.from(whole))),
        (tokens) => {
          assert.equal(pushAll(tokens, []).join(''), decode(tokens));
        },
      ),
      { numRuns: 3000 },
    );
  });

  it('returns a character of four tokens with the last one', () => {
    const [a, b, c, d] = Array.from(Buffer.from('😀'), (byte) => Uint8Array.of(byte));
    assert.ok(a && b && c && d);
    assert.deepEqual(pushAll([a, b, c, d], []), ['', '', '', '😀', '']);
    // An incomplete character is not held back forever.
    const empty = new Uint8Array();
    assert.deepEqual(pushAll([a, empty, empty, empty, ...bytes('x')], []), ['', '', '', '\uFFFD', 'x', '']);
  });

  it('finds a stop sequence inside a token and across tokens', () => {
    assert.deepEqual(pushAll(bytes('one</s>two', 'three'), ['</s>']), ['one', '', '']);
    assert.deepEqual(pushAll(bytes('one<', '/', 's', '>', 'two'), ['</s>']), ['one', '', '', '', '', '']);
    assert.deepEqual(pushAll(bytes('one<', '/', 'p>'), ['</s>']), ['one', '', '</p>', '']);
  });

  it('returns held back text at the end', () => {
    assert.deepEqual(pushAll(bytes('ab', 'a'), ['abac']), ['', '', 'aba']);
    assert.deepEqual(pushAll([Uint8Array.of(0x61, 0xc3)], []), ['a', '\uFFFD']);
  });

  it('ignores stop sequences that are empty or have half a surrogate pair', () => {
    assert.deepEqual(pushAll(bytes('a😀b'), ['', '\ude00', 'a\ud83d']), ['a😀b', '']);
  });

  it('takes linear time for repetitive texts and stop sequences', () => {
    const stop = `${'a'.repeat(20_000)}b`;
    const out = pushAll(bytes(...Array.from({ length: 2000 }, () => 'a'.repeat(50))), [stop]);
    assert.equal(out.join('').length, 100_000);
    assert.equal(out.at(-1)?.length, 20_000);
  });
});

describe('the output of a choice with reasoning', () => {
  it('has no log probability of the end of the reasoning', () => {
    const tokens = ['Hm.', '</think>', '\n\n', '<', 'p', '>'];
    const text = (ids: Uint32Array): string => Array.from(ids, (id) => tokens[id] ?? '').join('');
    const vocabulary = { text, textWithControls: text, isControl: () => false };
    const reasoning = { open: '<think>', close: '</think>' };
    const parsing = { format: null, reasoning, insideReasoning: true, tools: [], oneCall: false };
    const output = new ChoiceOutput({ vocabulary, stop: [], ...parsing });
    const parts = tokens.flatMap((token, id) =>
      output.push(id, { token, logprob: -1, bytes: null, top: [] }),
    );
    const logprobs = parts.flatMap((part) => (part.type === 'text' ? part.logprobs : []));
    assert.deepEqual(
      logprobs.map(({ token }) => token),
      ['<', 'p', '>'],
    );
  });
});

describe('the output of a choice with tools', () => {
  it('ends after as many calls as a message of a request can have', () => {
    const call = '<tool_call>\n{"name": "find", "arguments": {}}\n</tool_call>';
    const text = (ids: Uint32Array): string => call.repeat(ids.length);
    const vocabulary = { text, textWithControls: text, isControl: () => false };
    const tools = [{ name: 'find', description: null, parameters: {}, strict: false }];
    const parsing = { format: GENERIC, reasoning: null, insideReasoning: false, tools, oneCall: false };
    const output = new ChoiceOutput({ vocabulary, stop: [], ...parsing });
    while (output.finishReason === null && output.calls < 200) output.push(0, null);
    assert.deepEqual([output.calls, output.finishReason], [128, 'tool_calls']);
  });
});

describe('the text of tokens in the middle of a text', () => {
  it('keeps the leading space that SentencePiece removes from the first token that it decodes', () => {
    const words = ['', '▁Hello', '▁world', '!'];
    const sentencePiece = (tokens: Uint32Array) => {
      const text = Array.from(tokens, (token) => words[token] ?? '');
      if (text[0] !== undefined) text[0] = text[0].replace(/^▁/, '');
      return text.join('').replaceAll('▁', ' ');
    };
    const characters = new CharacterAssembler(withAnchor(sentencePiece, 0));
    assert.deepEqual(
      [1, 2, 3].map((token) => characters.push(token)),
      [' Hello', ' world', '!'],
    );
  });
});

describe('a token that ends the reasoning', () => {
  const pieces = bytes('Hm.', '</think', '>', '><', '>\n\n', 'x</think>{"a', '> {');
  const reasoningOf = (...tokens: number[]): ChoiceOutput => {
    const text = (ids: Uint32Array): string =>
      decode(Array.from(ids, (id) => pieces[id] ?? new Uint8Array()));
    const output = new ChoiceOutput({
      vocabulary: { text, textWithControls: text, isControl: () => false },
      format: null,
      reasoning: { open: '<think>', close: '</think>' },
      insideReasoning: true,
      tools: [],
      stop: [],
      oneCall: false,
    });
    for (const token of tokens) output.push(token, null);
    return output;
  };

  it('is known to also begin the answer, unless the rest is white space', () => {
    const output = reasoningOf(0, 1);
    const ends = [0, 2, 3, 4, 5, 6].map((token) => output.endOfReasoning(token));
    assert.deepEqual(ends, [null, null, '>', null, 'x</think>', '>']);
    assert.equal(reasoningOf(0).endOfReasoning(3), null);
  });
});
