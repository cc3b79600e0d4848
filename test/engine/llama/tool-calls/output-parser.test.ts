import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../../support/fast-check.ts';
import { GEMMA, LFM2, LLAMA4 } from '../../../../src/engine/llama/tool-calls/literal-formats.ts';
import { GLM, QWEN_XML } from '../../../../src/engine/llama/tool-calls/tag-formats.ts';
import { HARMONY, HERMES, LLAMA3, MISTRAL } from '../../../../src/engine/llama/tool-calls/json-formats.ts';
import {
  detectReasoning,
  HARMONY_CHANNELS,
  reasoningOf,
} from '../../../../src/engine/llama/tool-calls/reasoning.ts';
import { FORMATS } from './formats.ts';
import { createParser, join, type Output, parse, split, tool } from './parsing.ts';

const CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>';
const PARSED = { name: 'f', arguments: '{"a": 1}' };
const THINK = { open: '<think>', close: '</think>' };

/** Texts with calls of a function `f` with the same arguments, by format. */
const CALL_TEXTS: Readonly<Record<string, readonly string[]>> = {
  hermes: [
    '<tool_call>\n{"name": "f", "arguments": {"a": "x", "b": 12}}\n</tool_call>',
    `\`\`\`json\n{"name": "f", "arguments": {"a": "x", "b": 12}}\n{"name": "f", "arguments": {"a": "x", "b": 12}}\n\`\`\``,
    '{"name": "f", "arguments": {"a": "x", "b": 12}}',
    '{{"name": "f", "arguments": {"a": "x", "b": 12}}}',
  ],
  generic: ['<tool_call>\n{"name": "f", "arguments": {"a": "x", "b": 12}}\n</tool_call>'],
  'qwen-xml': [
    '<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=b>\n12\n</parameter>\n</function>\n</tool_call>',
    '<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=b>\n12\n</parameter>\n</function>\n</tool_call>',
  ],
  glm: [
    '<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n<arg_key>b</arg_key>\n<arg_value>12</arg_value>\n</tool_call>',
  ],
  mistral: ['[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{"a": "x", "b": 12}'],
  'mistral-nemo': [
    '[TOOL_CALLS][{"name": "f", "arguments": {"a": "x", "b": 12}, "id": "123456789"}, {"name": "f", "arguments": {"a": "x", "b": 12}}]',
  ],
  llama3: [
    '<|python_tag|>{"name": "f", "parameters": {"a": "x", "b": 12}}',
    '{"name": "f", "parameters": {"a": "x", "b": 12}}',
  ],
  deepseek: [
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": "x", "b": 12}<｜tool▁call▁end｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": "x", "b": 12}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
  ],
  'deepseek-r1': [
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n\`\`\`json\n{"a": "x", "b": 12}\n\`\`\`<｜tool▁call▁end｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n\`\`\`json\n{"a": "x", "b": 12}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  ],
  harmony: [' to=functions.f<|channel|>commentary json<|message|>{"a": "x", "b": 12}'],
  gemma: ['<|tool_call>call:f{a:<|"|>x<|"|>,b:12}<tool_call|>'],
  lfm2: [`<|tool_call_start|>[f(a='x', b=12), f(a='x', b=12)]<|tool_call_end|>`],
  llama4: [
    `<|python_start|>[f(a='x', b=12), f(a='x', b=12)]<|python_end|>`,
    `[f(a='x', b=12), f(a='x', b=12)]`,
  ],
  phi: [
    'functools[{"name": "f", "arguments": {"a": "x", "b": 12}}, {"name": "f", "arguments": {"a": "x", "b": 12}}]',
  ],
  minimax: [
    '<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">x</parameter>\n<parameter name="b">12</parameter>\n</invoke>\n<invoke name="f">\n<parameter name="a">x</parameter>\n<parameter name="b">12</parameter>\n</invoke>\n</minimax:tool_call>',
  ],
  'deepseek-v3.2': [
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>\n<｜DSML｜parameter name="b" string="false">12</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>\n<｜DSML｜parameter name="b" string="false">12</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
  ],
  'deepseek-v4': [
    '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>\n<｜DSML｜parameter name="b" string="false">12</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>\n<｜DSML｜parameter name="b" string="false">12</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
  ],
  kimi: [
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": "x", "b": 12}<|tool_call_end|><|tool_call_begin|>functions.f:1<|tool_call_argument_begin|>{"a": "x", "b": 12}<|tool_call_end|><|tool_calls_section_end|>',
  ],
  nemotron: [
    '<TOOLCALL>[{"name": "f", "arguments": {"a": "x", "b": 12}}, {"name": "f", "arguments": {"a": "x", "b": 12}}]</TOOLCALL>',
  ],
  cohere: [
    '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": "x", "b": 12}}]<|END_ACTION|>',
  ],
};

function output(changes: Partial<Output>): Output {
  return { text: '', reasoning: '', calls: [], ...changes };
}

describe('text around calls', () => {
  it('is returned, without the white space before, between and after calls', () => {
    const text = `\n Let me see.\n\n${CALL}\n${CALL}\n`;
    assert.deepEqual(
      parse([text], { format: HERMES }),
      output({ text: '\n Let me see.', calls: [PARSED, PARSED] }),
    );
  });

  it('is returned after a call', () => {
    assert.deepEqual(
      parse([`${CALL}\nDone. `], { format: HERMES }),
      output({ text: '\nDone. ', calls: [PARSED] }),
    );
  });

  it('is unchanged without calls, however it is split', () => {
    const texts = fc.string({
      unit: fc.constantFrom('<', 'tool_call', '>', ' ', '\n', '{', 'a', '[', '(', '</think>'),
    });
    const lengths = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 });
    fc.assert(
      fc.property(texts, lengths, fc.constantFrom(null, HERMES, QWEN_XML, LFM2), (text, each, format) => {
        assert.deepEqual(parse(split(text, each), { format }), output({ text }));
      }),
    );
  });

  it('is returned at once, except for what may begin a call', () => {
    const parser = createParser({ format: HERMES });
    assert.deepEqual(parser.push('a < b'), [{ type: 'text', text: 'a < b' }]);
    assert.deepEqual(parser.push(' <tool'), []);
    assert.deepEqual(parser.push('s>'), [{ type: 'text', text: ' <tools>' }]);
  });

  it('is returned without waiting for the end of long white space', () => {
    const parser = createParser({ format: HERMES });
    assert.equal(join(parser.push(`a${'\n'.repeat(300)}`)).text.length, 301);
  });
});

describe('a call', () => {
  it('is reported with its name first, and its arguments as they arrive', () => {
    const parser = createParser({ format: HERMES });
    assert.deepEqual(parser.push('<tool_call>\n{"name": "f'), []);
    assert.equal(parser.state, 'text');
    assert.deepEqual(parser.push('", "argu'), []);
    assert.equal(parser.state, 'call');
    assert.deepEqual(parser.push('ments": {"a'), [
      { type: 'call', name: 'f' },
      { type: 'arguments', text: '{"a' },
    ]);
    assert.deepEqual(parser.push('": "x'), [{ type: 'arguments', text: '": "x' }]);
    assert.deepEqual(parser.push('"}}'), [{ type: 'arguments', text: '"}' }]);
    assert.equal(parser.completedCalls, 0);
    assert.deepEqual(parser.push('\n</tool_call>'), []);
    assert.equal(parser.completedCalls, 1);
    assert.equal(parser.state, 'text');
  });

  it('can have its members in any order', () => {
    const text = '<tool_call>{"id": [1], "arguments": {"a": 1}, "name": "f", "x": "}"}</tool_call>';
    assert.deepEqual(parse(split(text, [1]), { format: HERMES }), output({ calls: [PARSED] }));
  });

  it('can have long arguments, in one piece', () => {
    const call = { name: 'f', arguments: JSON.stringify({ a: 'x'.repeat(100_000) }) };
    const text = `<tool_call>{"name": "f", "arguments": ${call.arguments}}</tool_call>`;
    assert.deepEqual(parse([text], { format: HERMES }), output({ calls: [call] }));
  });

  it('is reported with the arguments that arrived if it is cut off', () => {
    const call = { name: 'f', arguments: '{"a": "x' };
    assert.deepEqual(
      parse(['<tool_call>{"name": "f", "arguments": {"a": "x'], { format: HERMES }),
      output({ calls: [call] }),
    );
    assert.deepEqual(
      parse(['<tool_call>\n<function=f>\n<parameter=a>\nx</para'], {
        format: QWEN_XML,
        tools: [tool('f', { a: { type: 'string' } })],
      }),
      output({ calls: [{ name: 'f', arguments: '{"a": "x' }] }),
    );
  });

  for (const format of FORMATS)
    it(`of the format ${format.name} has no markup in its text and arguments, wherever it is cut off`, () => {
      for (const text of CALL_TEXTS[format.name] ?? []) {
        const tools = [tool('f', { a: { type: 'string' }, b: { type: 'integer' } })];
        const reasoning = format === HARMONY ? HARMONY_CHANNELS : null;
        const options = { format, reasoning, tools };
        const whole = parse([text], options);
        assert.deepEqual(
          [whole.text, ...whole.calls.map((call) => JSON.parse(call.arguments) as unknown)],
          ['', ...whole.calls.map(() => ({ a: 'x', b: 12 }))],
        );
        const opening = format.openings.find((each) => text.startsWith(each));
        for (let end = opening?.length ?? 1; end < text.length; end += 1) {
          const cut = text.slice(0, end);
          let isCall = false;
          const parsed = parse([cut], { ...options, acceptCall: () => (isCall = true) });
          assert.deepEqual(parse(split(cut, [1]), options), parsed);
          // Before the name of the tool ends, the text can also be an answer.
          assert.equal(parsed.text, isCall ? '' : cut);
          for (const [index, call] of parsed.calls.entries()) {
            const full = whole.calls[index]?.arguments ?? '';
            const isLast = index === parsed.calls.length - 1;
            assert.ok(
              isLast ? full.startsWith(call.arguments) : call.arguments === full,
              `${cut}: ${call.arguments}`,
            );
          }
        }
        if (opening === undefined) assert.equal(parse([text.slice(0, -1)], options).text, '');
      }
    });

  const malformed = [
    '<tool_call>hello',
    '<tool_call>{"name": "f"}</tool_call>',
    '<tool_call>{"name": "f", "arguments": 5}',
    '<tool_call>{"name": 5, "arguments": {}}',
    `<tool_call>{"name": "${'f'.repeat(2000)}`,
    `<tool_call>${' '.repeat(9000)}x`,
    `<tool_call>{"arguments": {"a": "${'x'.repeat(9000)}"}}`,
  ];
  it('is text if it is malformed', () => {
    for (const text of malformed)
      for (const lengths of [[1], [text.length], [7]])
        assert.deepEqual(parse(split(text, lengths), { format: HERMES }), output({ text }));
  });

  it('is found after a malformed call', () => {
    assert.deepEqual(
      parse([`<tool_call>{${CALL}`], { format: HERMES }),
      output({ text: '<tool_call>{', calls: [PARSED] }),
    );
  });

  it('ends where its arguments are malformed, and the rest is text', () => {
    assert.deepEqual(
      parse(['<tool_call>{"name": "f", "arguments": {"a": 1</tool_call> Sorry.'], { format: HERMES }),
      output({ text: '</tool_call> Sorry.', calls: [{ name: 'f', arguments: '{"a": 1' }] }),
    );
  });

  it('of any format is parsed the same however it is split, and a malformed call is text without loss unless it is cut off', () => {
    const pieces = fc.array(
      fc.oneof(
        fc.string(),
        fc.constantFrom(
          '{"name": "f", ',
          '"arguments": {',
          '}',
          ']',
          '[',
          'f(',
          'a=',
          "'",
          '</tool_call>',
          '<parameter=',
          '>',
        ),
      ),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(pieces, fc.constantFrom(...FORMATS), fc.nat(), (texts, format, index) => {
        const openings = [...format.openings, ...(format.leadingOpenings?.([tool('f')]) ?? [])];
        const opening = openings[index % openings.length] ?? '';
        const text = opening + texts.join('');
        const whole = parse([text], { format, tools: [tool('f')] });
        assert.deepEqual(parse(split(text, [1]), { format, tools: [tool('f')] }), whole);
        const parser = createParser({ format, tools: [tool('f')] });
        parser.push(text);
        const isCut = parser.state === 'call';
        if (whole.calls.length === 0) assert.equal(whole.text, isCut ? '' : text);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('a call that is not accepted', () => {
  it('is text, and the next opening begins a call', () => {
    const begun: string[] = [];
    const acceptCall = (text: string): boolean => begun.push(text) > 1;
    const parser = createParser({ format: HERMES, acceptCall });
    const parts = parser.push('See <tool_call>\n{"name": "f",');
    assert.equal(parser.state, 'text');
    parts.push(...parser.push(` "a": ${CALL}`), ...parser.flush());
    const first = '<tool_call>\n{"name": "f",';
    assert.deepEqual(begun, [first, CALL]);
    assert.deepEqual(join(parts), output({ text: `See ${first} "a":`, calls: [PARSED] }));
  });
});

describe('an answer that mentions the notation of calls', () => {
  const MENTIONS = [
    'The tag <tool_call> is not closed.',
    'The text <function=foo> starts a call.',
    'The list functools[0] is empty.',
    'Write x to=functions.foo here.',
    '{"name": "Dave", "age": 52}',
    '{"name": "f", "age": 52}',
    '<|python_tag|>print(1)',
    '[TOOL_CALLS]g[ARGS]{"a": 1}',
    '`<tool_call>\n{"name": "f", "arguments": {}}`',
  ];

  for (const format of FORMATS)
    it(`is unchanged with the format ${format.name}, however it is split`, () => {
      const starts = [...format.openings, ...(format.leadingOpenings?.([tool('foreign')]) ?? [])];
      // The format's own calls, of a tool that is not offered.
      const foreign = (CALL_TEXTS[format.name] ?? []).map((text) =>
        text.replaceAll(/(?<![a-z])f(?=["<>[({\n: ])/g, 'foreign'),
      );
      // Markers of channels are always control tokens.
      const own = format === HARMONY ? ['Write to=functions.f <x>'] : [...starts, ...foreign];
      const pieces = fc.constantFrom(
        ...own,
        ...MENTIONS.slice(0, 8),
        '\n',
        ' ',
        '{',
        '"',
        'name',
        '<',
        '中',
        'g',
      );
      const lengths = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 });
      const check = (text: string, each: readonly number[]): void =>
        assert.deepEqual(parse(split(text, each), { format }), output({ text }));
      if (format.place === 'apart') for (const text of MENTIONS) check(text, [3]);
      fc.assert(
        fc.property(fc.array(pieces, { maxLength: 8 }), lengths, (parts, each) =>
          check(parts.join(''), each),
        ),
      );
    });

  it('has its control tokens omitted, as without tools', () => {
    const parser = createParser({ format: LLAMA3 });
    const parts = [
      ...parser.push('<|python_tag|>', true),
      ...parser.push('print("<|python_tag|>")'),
      ...parser.flush(),
    ];
    assert.deepEqual(join(parts), output({ text: 'print("<|python_tag|>")' }));
  });
});

describe('calls without an opening tag', () => {
  it('are recognized only at the start of the answer', () => {
    const call = '{"name": "f", "parameters": {"a": 1}}';
    assert.deepEqual(parse([`\n${call}`], { format: LLAMA3 }), output({ calls: [PARSED] }));
    assert.deepEqual(parse([`<|python_tag|>${call}`], { format: LLAMA3 }), output({ calls: [PARSED] }));
    assert.deepEqual(parse([`See ${call}`], { format: LLAMA3 }), output({ text: `See ${call}` }));
    for (const json of ['{"name": "Ada", "age": 36}', '{"a": 1}', '{', '{"name": "Ada"}'])
      assert.deepEqual(parse(split(json, [1]), { format: LLAMA3 }), output({ text: json }));
  });

  it('can be in a code block, as small models write them', () => {
    const options = { format: HERMES, tools: [tool('f')] };
    for (const json of [
      '{\n  "name": "f",\n  "arguments": {"a": 1}\n}',
      '{"name": "f", "arguments": {"a": 1}}',
    ]) {
      const block = `\`\`\`json\n${json}\n\`\`\``;
      for (const pieces of [[block], split(block, [1]), [block.slice(0, -4)]])
        assert.deepEqual(parse(pieces, options), output({ calls: [PARSED] }));
      const call = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>';
      assert.deepEqual(parse([`${block}\n${call}`], options), output({ calls: [PARSED, PARSED] }));
      assert.deepEqual(parse([`Example: ${block}`], options), output({ text: `Example: ${block}` }));
      assert.deepEqual(parse([block], { ...options, tools: [tool('g')] }), output({ text: block }));
    }
    const other = '```json\n{"name": "f", "age": 3}\n```';
    assert.deepEqual(parse(split(other, [1]), options), output({ text: other }));
  });

  it('can be several in one code block', () => {
    const call = '{"name": "f", "arguments": {"a": 1}}';
    const block = `\`\`\`json\n${call}\n${call}\n${call}\n\`\`\``;
    for (const pieces of [[block], split(block, [1]), [block.slice(0, -4)]]) {
      const parsed = parse(pieces, { format: HERMES, tools: [tool('f')] });
      assert.deepEqual(parsed, output({ calls: [PARSED, PARSED, PARSED] }));
    }
  });

  it('can begin with one brace or two', () => {
    const options = { format: HERMES, tools: [tool('f')] };
    for (const text of [
      '{"name": "f", "arguments": {"a": 1}}',
      '{{"name": "f", "arguments": {"a": 1}}}',
      '{{"name": "f", "arguments": {"a": 1}}',
    ]) {
      assert.deepEqual(parse([text], options), output({ calls: [PARSED] }));
      assert.deepEqual(parse(split(text, [1]), options), output({ calls: [PARSED] }));
      assert.deepEqual(parse([`See ${text}`], options), output({ text: `See ${text}` }));
      assert.deepEqual(parse([text], { ...options, tools: [tool('g')] }), output({ text }));
    }
  });

  it('need the name of an offered tool after the bracket', () => {
    const tools = [tool('f', { a: true }), tool('g', { b: true })];
    const options = { format: LLAMA4, tools };
    assert.deepEqual(parse(["[f(a=1), g(b='x')]"], options).calls, [
      PARSED,
      { name: 'g', arguments: '{"b": "x"}' },
    ]);
    assert.deepEqual(parse(['[f(x), f(y = 2)]'], options), output({ text: '[f(x), f(y = 2)]' }));
    assert.deepEqual(parse(['[Link](url)'], options), output({ text: '[Link](url)' }));
  });
});

describe('argument values in formats other than JSON', () => {
  const f = tool('f', {
    text: { type: 'string' },
    count: { type: 'integer' },
    maybe: { anyOf: [{ type: 'string' }, { type: 'null' }] },
    flag: { $ref: '#/$defs/flag' },
  });
  const tools = [{ ...f, parameters: { ...f.parameters, $defs: { flag: { type: 'boolean' } } } }];

  function argumentsOf(values: Readonly<Record<string, string>>): unknown {
    const parameters = Object.entries(values).map(
      ([key, value]) => `<parameter=${key}>\n${value}\n</parameter>\n`,
    );
    const text = `<tool_call>\n<function=f>\n${parameters.join('')}</function>\n</tool_call>`;
    const { calls } = parse(split(text, [3, 1]), { format: QWEN_XML, tools });
    return JSON.parse(calls[0]?.arguments ?? '');
  }

  it('have the types of the schema', () => {
    assert.deepEqual(argumentsOf({ text: '12', count: '12', maybe: 'null', flag: 'True' }), {
      text: '12',
      count: 12,
      maybe: null,
      flag: true,
    });
    assert.deepEqual(argumentsOf({ text: 'true', count: 'many', maybe: 'some "text"' }), {
      text: 'true',
      count: 'many',
      maybe: 'some "text"',
    });
  });

  it('of an unknown type are parsed as JSON where possible, except for strings', () => {
    assert.deepEqual(argumentsOf({ a: '[1, {}]', b: 'x y', c: '"quoted"', d: '' }), {
      a: [1, {}],
      b: 'x y',
      c: '"quoted"',
      d: '',
    });
  });

  it('keep line breaks, except one at each end', () => {
    assert.deepEqual(argumentsOf({ text: '\n  a\n\nb\n' }), { text: '\n  a\n\nb\n' });
  });

  it('that are strings are reported as they arrive', () => {
    const parser = createParser({ format: GLM, tools });
    parser.push('<tool_call>f\n<arg_key>text</arg_key>\n<arg_value>');
    assert.deepEqual(parser.push('a "b" <'), [{ type: 'arguments', text: String.raw`a \"b\" ` }]);
  });

  it('that are long keep their type', () => {
    const long = Array.from({ length: 40_000 }, () => 1);
    assert.deepEqual(argumentsOf({ a: JSON.stringify(long) }), { a: long });
  });

  it('of Python and Gemma 4 become JSON', () => {
    const python = String.raw`<|tool_call_start|>[f(a='it\'s\n\x41', b=[1, -2.5, None], c={'k': True}, d="", e=(1,))]<|tool_call_end|>`;
    assert.deepEqual(JSON.parse(parse([python], { format: LFM2 }).calls[0]?.arguments ?? ''), {
      a: "it's\nA",
      b: [1, -2.5, null],
      c: { k: true },
      d: '',
      e: [1],
    });
    const gemma = '<|tool_call>call:f{a:<|"|>it\'s "x" \\n<|"|>,b:[1,{c:true}],d:null,e:{}}<tool_call|>';
    assert.deepEqual(JSON.parse(parse([gemma], { format: GEMMA }).calls[0]?.arguments ?? ''), {
      a: 'it\'s "x" \\n',
      b: [1, { c: true }],
      d: null,
      e: {},
    });
  });

  it('nest up to a limit', () => {
    const text = `<|tool_call>call:f{a:${'['.repeat(1000)}`;
    assert.equal(parse([text], { format: GEMMA }).calls.length, 1);
  });
});

describe('Mistral', () => {
  it('has calls with and without IDs, one after the other', () => {
    const text = '[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{"a": 1}[TOOL_CALLS]f[ARGS]{"a": 1}';
    assert.deepEqual(parse(split(text, [4]), { format: MISTRAL }), output({ calls: [PARSED, PARSED] }));
  });
});

describe('reasoning', () => {
  const options = { format: HERMES, reasoning: THINK };

  it('at the start is separated from the text, without the white space around it', () => {
    assert.deepEqual(
      parse(split('\n<think>\nLet me\n\nthink.\n</think>\n\nHello.\n', [2]), options),
      output({ reasoning: 'Let me\n\nthink.', text: 'Hello.\n' }),
    );
  });

  it('is not reported if it is empty', () => {
    assert.deepEqual(parse(['<think>\n\n</think>\n\nHello.'], options), output({ text: 'Hello.' }));
    assert.deepEqual(parse(['</think>\n\nHello.'], options), output({ text: 'Hello.' }));
  });

  it('can begin in the prompt', () => {
    assert.equal(reasoningOf(THINK, '<|im_start|>assistant\n<think>\n'), 'open');
    assert.equal(reasoningOf(THINK, '<|im_start|>assistant\n<think>\n\n</think>\n\n'), 'closed');
    assert.equal(reasoningOf(THINK, '<|im_start|>assistant\n'), 'none');
    const inside = { ...options, insideReasoning: true };
    assert.deepEqual(parse(['Hm.</think>', CALL], inside), output({ reasoning: 'Hm.', calls: [PARSED] }));
    assert.deepEqual(parse(['Hm'], inside), output({ reasoning: 'Hm' }));
  });

  it('contains no calls', () => {
    const parser = createParser({ ...options, insideReasoning: true });
    assert.equal(parser.state, 'reasoning');
    assert.deepEqual(join(parser.push(`I could ${CALL}`)).calls, []);
    assert.equal(parser.state, 'reasoning');
    parser.push('</think>');
    assert.equal(parser.state, 'text');
  });

  it('is text after the start of the answer', () => {
    const text = 'The tag <think> begins it, </think> ends it.';
    assert.deepEqual(parse([text], options), output({ text }));
  });

  it('is detected from the template', () => {
    assert.equal(detectReasoning('{{ message.content }}'), null);
    assert.deepEqual(detectReasoning("{{ content.split('</think>') }}"), THINK);
    assert.equal(detectReasoning('[THINK] [/THINK]')?.close, '[/THINK]');
  });
});

describe('Harmony', () => {
  const options = { format: HARMONY, reasoning: HARMONY_CHANNELS };
  const analysis = '<|channel|>analysis<|message|>Hm.<|end|>';
  const next = '<|start|>assistant';
  const CHANNEL = '<|channel|>';

  it('has reasoning, text and calls in channels', () => {
    assert.deepEqual(
      parse(split(`${analysis}${next}<|channel|>final<|message|>Hello.`, [3]), options),
      output({ reasoning: 'Hm.', text: 'Hello.' }),
    );
    for (const header of [
      '<|channel|>commentary to=functions.f <|constrain|>json<|message|>',
      ' to=functions.f<|channel|>commentary json<|message|>',
    ]) {
      const preamble = `${next}<|channel|>commentary<|message|>I look.<|end|>`;
      assert.deepEqual(
        parse(split(`${analysis}${preamble}${next}${header}{"a": 1}`, [5, 1]), options),
        output({ reasoning: 'Hm.', text: 'I look.', calls: [PARSED] }),
      );
    }
  });

  it('has no calls without tools', () => {
    assert.deepEqual(
      parse([`${analysis}${next}<|channel|>final<|message|>Use to=functions.f.`], {
        ...options,
        format: null,
      }),
      output({ reasoning: 'Hm.', text: 'Use to=functions.f.' }),
    );
  });

  it('keeps the texts of its marks in an answer', () => {
    const header = [CHANNEL, 'final', '<|message|>'] as const;
    const mention = `<|channel|>analysis ends with <|end|>${next}${header.join('')}, <|call|> with to=functions.f.`;
    for (const lengths of [[200], [1], [7, 3]]) {
      const parser = createParser(options);
      const parts = header.map((piece) => parser.push(piece, piece !== 'final'));
      parts.push(...split(mention, lengths).map((piece) => parser.push(piece)));
      parts.push(parser.push('<|end|>', true), parser.push('<|start|>', true), parser.push('assistant'));
      parts.push(...header.map((piece) => parser.push(piece, piece !== 'final')), parser.push(' Done.'));
      assert.deepEqual(join([...parts.flat(), ...parser.flush()]), output({ text: `${mention} Done.` }));
    }
  });

  it('without channels is text', () => {
    assert.deepEqual(parse(['Hello.'], options), output({ text: 'Hello.' }));
  });
});
