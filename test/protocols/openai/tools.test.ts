import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { DIALECTS, REASONING_EFFORTS } from '../../../src/core/generation.ts';
import { Notes } from '../../../src/core/notes.ts';
import { RESERVED_VARIABLES } from '../../../src/protocols/openai/fields.ts';
import { MAX_SCHEMA_CHARACTERS, MAX_SCHEMA_NODES } from '../../../src/json/json-schema.ts';
import { CHAT } from '../../../src/protocols/openai/protocols.ts';
import { refuseUnsupported } from '../../../src/replicas/wire/unsupported.ts';
import { definitions, readsOf } from '../../json/counted-reads.ts';
import { CALLER, chat, refuses, withPaths } from './samples.ts';

const tool = (name: unknown = 'f', fields: object = {}) => ({
  type: 'function',
  function: { name, ...fields },
});
const named = (name: string) => ({ type: 'function', function: { name } });
const toolsOf = (...tools: unknown[]) => chat({ tools }).request.tools;
const choiceOf = (tool_choice: unknown) =>
  chat({ tools: [tool('f'), tool('g')], tool_choice }).request.toolChoice;
const allowing = (mode: unknown, tools: unknown) => ({
  type: 'allowed_tools',
  allowed_tools: { mode, tools },
});

test('a function has a name, and optionally a description, parameters and strict', () => {
  const parameters = { type: 'object', properties: { city: { type: 'string' } } };
  assert.deepEqual(
    toolsOf(
      tool('f'),
      tool('g', { description: 'Weather', parameters, strict: true }),
      tool('h', { strict: null }),
    ),
    [
      { name: 'f', description: null, parameters: { type: 'object', properties: {} }, strict: false },
      { name: 'g', description: 'Weather', parameters, strict: true },
      { name: 'h', description: null, parameters: { type: 'object', properties: {} }, strict: false },
    ],
  );
});

test('errors in tools have the path of the field', () => {
  const faults: [unknown, Parameters<typeof refuses>[1], string][] = [
    ['x', 'invalid_type', ''],
    [{ function: { name: 'f' } }, 'missing_required_parameter', '.type'],
    [{ type: 1 }, 'invalid_type', '.type'],
    [{ type: 'function' }, 'missing_required_parameter', '.function'],
    [{ type: 'function', function: 'f' }, 'invalid_type', '.function'],
    [{ ...tool(), x: 1 }, 'unsupported_parameter', '.x'],
    [tool('g', { x: 1 }), 'unsupported_parameter', '.function.x'],
    [tool(null), 'missing_required_parameter', '.function.name'],
    [tool(1), 'invalid_type', '.function.name'],
    [tool('a.b'), 'invalid_value', '.function.name'],
    [tool('f'), 'invalid_value', '.function.name'],
    [tool('g', { description: 1 }), 'invalid_type', '.function.description'],
    [tool('g', { description: 'x'.repeat(65_537) }), 'invalid_value', '.function.description'],
    [tool('g', { parameters: [] }), 'invalid_type', '.function.parameters'],
    [tool('g', { strict: 'yes' }), 'invalid_type', '.function.strict'],
  ];
  for (const [value, code, path] of faults) {
    refuses(() => toolsOf(tool('f'), value), code, `tools[1]${path}`);
  }
  refuses(() => chat({ tools: 'x' }), 'invalid_type', 'tools');
});

test('a tool of another type is ignored, and the note names the type only if it looks like a name', () => {
  const types = ['web_search', 'custom', 'code_interpreter', 'My secret'];
  const notes = new Notes();
  const { request } = chat({ tools: [...types.map((type) => ({ type })), tool('f')] }, { ...CALLER, notes });
  assert.deepEqual(
    request.tools.map(({ name }) => name),
    ['f'],
  );
  assert.equal(
    notes.header(),
    'tools[0] ignored (web_search), tools[1] ignored (custom), tools[2] ignored (code_interpreter), tools[3] ignored (unknown type)',
  );
  const forced = {
    tools: [{ type: 'custom' }, tool('f')],
    tool_choice: { type: 'custom', custom: { name: 'c' } },
  };
  refuses(() => chat(forced, { ...CALLER, notes }), 'unsupported_parameter', 'tool_choice.type');
  refuses(() => chat({ tools: [{ type: 'custom' }] }), 'unsupported_parameter', 'tools[0]');
});

test('a name has 1 to 64 letters, digits, underscores and dashes', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.string({ maxLength: 70 })), (name) => {
      const action = () => toolsOf(tool(name));
      if (/^[a-zA-Z0-9_-]{1,64}$/.test(name)) assert.equal(action()[0]?.name, name);
      else refuses(action, 'invalid_value', 'tools[0].function.name');
    }),
  );
  refuses(() => toolsOf(tool('f\n')), 'invalid_value', 'tools[0].function.name');
});

test('a request has at most 1,024 functions, with at most 1,048,576 characters of JSON', () => {
  const many = (count: number) => Array.from({ length: count }, (_, index) => tool(`f${index}`));
  assert.equal(toolsOf(...many(1024)).length, 1024);
  refuses(() => toolsOf(...many(1025)), 'invalid_value', 'tools');
  const sized = (characters: number) => {
    const empty = JSON.stringify([tool('f', { parameters: { title: '' } })]).length;
    return tool('f', { parameters: { title: 'x'.repeat(characters - empty) } });
  };
  assert.equal(toolsOf(sized(1_048_576)).length, 1);
  refuses(() => toolsOf(sized(1_048_577)), 'invalid_value', 'tools');
  refuses(() => toolsOf(tool('f', { parameters: { '\ud800': 1 } })), 'invalid_value', 'tools');
});

test('the path of the schema of a function counts the tools of other types, which are ignored', () => {
  const body = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
  const options = { ...CALLER, notes: new Notes() };
  const request = CHAT.parse({ ...body, tools: [{ type: 'custom' }, tool('f')] }, options);
  assert.equal(request.schemaPath(0), 'tools[1].function.parameters');
});

test('strict schemas need the type object and supported keywords; other schemas are passed on unchanged', () => {
  const at = 'tools[0].function.parameters';
  const strict = (parameters: object) => toolsOf(tool('f', { parameters, strict: true }));
  refuses(() => strict({}), 'invalid_value', `${at}.type`);
  refuses(() => strict({ type: ['object', 'null'] }), 'invalid_value', `${at}.type`);
  refuses(() => strict({ type: 'object', minProperties: 1 }), 'unsupported_parameter', `${at}.minProperties`);
  const ref = { type: 'object', properties: { a: { $ref: 'https://example.com' } } };
  refuses(() => strict(ref), 'unsupported_parameter', `${at}.properties.a.$ref`);
  const others = { tools: [{ type: 'web_search' }, tool('f', { parameters: ref, strict: true })] };
  const atSecond = 'tools[1].function.parameters.properties.a.$ref';
  refuses(() => chat(others, { ...CALLER, notes: new Notes() }), 'unsupported_parameter', atSecond);
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (parameters) => {
      assert.equal(toolsOf(tool('f', { parameters }))[0]?.parameters, parameters);
    }),
  );
});

test('tool_choice is a mode, an offered function, or a subset of the functions', () => {
  for (const type of ['none', 'auto', 'required'] as const) assert.deepEqual(choiceOf(type), { type });
  assert.deepEqual(choiceOf(null), { type: 'auto' });
  assert.deepEqual(choiceOf(named('g')), { type: 'function', name: 'g' });
  assert.deepEqual(choiceOf(allowing('required', [named('g'), named('g')])), {
    type: 'allowed',
    mode: 'required',
    names: ['g'],
  });
});

test('errors in tool_choice have the path of the field', () => {
  const at = 'tool_choice';
  const allowed = `${at}.allowed_tools`;
  const faults: [unknown, Parameters<typeof refuses>[1], string][] = [
    ['any', 'invalid_value', at],
    [1, 'invalid_type', at],
    [[], 'invalid_type', at],
    [{}, 'missing_required_parameter', `${at}.type`],
    [{ type: 'web_search' }, 'unsupported_parameter', `${at}.type`],
    [{ type: 'function' }, 'missing_required_parameter', `${at}.function`],
    [{ type: 'function', function: {} }, 'missing_required_parameter', `${at}.function.name`],
    [{ ...named('f'), x: 1 }, 'unsupported_parameter', `${at}.x`],
    [{ type: 'function', function: { name: 'f', x: 1 } }, 'unsupported_parameter', `${at}.function.x`],
    [named('h'), 'invalid_value', `${at}.function.name`],
    [{ type: 'allowed_tools' }, 'missing_required_parameter', allowed],
    [allowing(null, [named('f')]), 'missing_required_parameter', `${allowed}.mode`],
    [allowing(1, [named('f')]), 'invalid_type', `${allowed}.mode`],
    [allowing('none', [named('f')]), 'invalid_value', `${allowed}.mode`],
    [allowing('auto', null), 'missing_required_parameter', `${allowed}.tools`],
    [allowing('auto', 'f'), 'invalid_type', `${allowed}.tools`],
    [allowing('auto', []), 'invalid_value', `${allowed}.tools`],
    [allowing('auto', Array(1025).fill(named('f'))), 'invalid_value', `${allowed}.tools`],
    [allowing('auto', [named('f'), named('h')]), 'invalid_value', `${allowed}.tools[1].function.name`],
    [allowing('auto', [{ type: 'custom' }]), 'unsupported_parameter', `${allowed}.tools[0].type`],
    [{ ...allowing('auto', [named('f')]), mode: 1 }, 'unsupported_parameter', `${at}.mode`],
  ];
  for (const [choice, code, path] of faults) refuses(() => choiceOf(choice), code, path);
});

test('without tools, a choice other than none and auto is refused, and parallel_tool_calls has no effect', () => {
  for (const choice of ['required', named('f'), allowing('auto', [named('f')])]) {
    for (const tools of [[], null]) {
      refuses(
        () => chat({ tools, tool_choice: choice }),
        'invalid_value',
        'tool_choice',
        'is only allowed when `tools` are specified.',
      );
    }
  }
  const plain = chat();
  for (const tool_choice of ['none', 'auto']) {
    assert.deepEqual(chat({ tools: [], tool_choice, parallel_tool_calls: false }), plain);
  }
  refuses(() => chat({ parallel_tool_calls: 'no' }), 'invalid_type', 'parallel_tool_calls');
});

const usedBy = (fields: object) => chat(fields).used;

test('only fields with an effect ask for features', () => {
  assert.deepEqual(usedBy({ tools: [], reasoning_effort: 'none', chat_template_kwargs: {} }), []);
  assert.deepEqual(usedBy({ tools: [tool()], tool_choice: 'auto', parallel_tool_calls: true }), ['tools']);
  assert.deepEqual(
    usedBy({
      tools: [tool('f', { strict: true, parameters: { type: 'object' } })],
      tool_choice: 'required',
      parallel_tool_calls: false,
      reasoning_effort: 'low',
      chat_template_kwargs: { a: 1 },
    }).sort(),
    [
      'chat_template_kwargs',
      'parallel_tool_calls',
      'reasoning_effort',
      'tool_choice',
      'tools',
      'tools[].function.strict',
    ],
  );
});

test('a field that the dialect does not support is refused, and the error names the field', () => {
  const refusedBy = (fields: object) =>
    DIALECTS.filter((dialect) => {
      try {
        refuseUnsupported(withPaths(chat(fields).request), [dialect], CHAT);
        return false;
      } catch {
        return true;
      }
    });
  const strict = (parameters: object) => ({ tools: [tool('f', { strict: true, parameters })] });
  assert.deepEqual(refusedBy({ tools: [tool()], tool_choice: 'required', parallel_tool_calls: false }), [
    'tei',
  ]);
  assert.deepEqual(refusedBy(strict({ type: 'object' })), ['tgi', 'tei']);
  assert.deepEqual(refusedBy({ reasoning_effort: 'high' }), ['tgi', 'tei']);
  assert.deepEqual(refusedBy({ chat_template_kwargs: { enable_thinking: false } }), ['tgi', 'tei', 'openai']);
  assert.deepEqual(refusedBy({ reasoning_effort: 'none', tools: [], tool_choice: 'auto' }), []);
  const unenforced = chat(strict({ type: 'object', properties: { a: { type: 'string', format: 'uuid' } } }));
  refuses(
    () => refuseUnsupported(withPaths(unenforced.request), ['tgi'], CHAT),
    'unsupported_parameter',
    'tools[].function.strict',
  );
  assert.equal(unenforced.request.tools[0]?.strict, true);
});

test('reasoning_effort is one of the levels', () => {
  for (const effort of REASONING_EFFORTS) {
    assert.equal(chat({ reasoning_effort: effort }).request.reasoningEffort, effort);
  }
  refuses(() => chat({ reasoning_effort: 'extreme' }), 'invalid_value', 'reasoning_effort');
});

test('the budget of reasoning is `reasoning.max_tokens`, else the variable `thinking_budget`', () => {
  const budget = (body: object) => chat(body).request.reasoningBudget;
  assert.equal(budget({}), null);
  assert.equal(budget({ reasoning: { max_tokens: 100 } }), 100);
  assert.equal(budget({ reasoning: { enabled: true } }), null);
  assert.equal(budget({ chat_template_kwargs: { thinking_budget: 0 } }), 0);
  assert.equal(budget({ chat_template_kwargs: { thinking_budget: -1 } }), null);
  assert.equal(budget({ reasoning: { max_tokens: 9 }, chat_template_kwargs: { thinking_budget: 100 } }), 9);
  refuses(() => chat({ reasoning: { max_tokens: 0 } }), 'invalid_value', 'reasoning.max_tokens');
  assert.equal(chat({ reasoning: { effort: 'low' } }).request.reasoningEffort, 'low');
  assert.equal(
    chat({ reasoning_effort: 'high', reasoning: { effort: 'low' } }).request.reasoningEffort,
    'high',
  );
});

const variablesOf = (chat_template_kwargs: unknown) =>
  chat({ chat_template_kwargs }).request.templateVariables;

test('chat_template_kwargs is an object of variables that the service does not set', () => {
  const variables = { enable_thinking: false, nested: { a: [1, null, 'x'] } };
  assert.deepEqual(variablesOf(variables), variables);
  const at = 'chat_template_kwargs';
  refuses(() => variablesOf([]), 'invalid_type', at);
  for (const name of RESERVED_VARIABLES) {
    const text = 'is set by the service, as are messages, tools, ';
    refuses(() => variablesOf({ [name]: 1 }), 'unsupported_parameter', `${at}.${name}`, text);
  }
  for (const name of ['', 'a.b', '1a', '_a', 'a'.repeat(64).concat('b')]) {
    assert.throws(() => variablesOf({ [name]: 1 }), { code: 'invalid_value' });
  }
  refuses(() => variablesOf(JSON.parse('{"__proto__":1}')), 'invalid_value', `${at}.__proto__`);
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, id) => [`a${id}`, 1]));
  assert.equal(Object.keys(variablesOf(many(64))).length, 64);
  refuses(() => variablesOf(many(65)), 'invalid_value', at);
  assert.ok(variablesOf({ a: 'x'.repeat(65_536 - '{"a":""}'.length) }));
  refuses(() => variablesOf({ a: 'x'.repeat(65_537 - '{"a":""}'.length) }), 'invalid_value', at);
  refuses(() => variablesOf({ a: ['\ud800'] }), 'invalid_value', at);
});

test('the schemas of all strict functions of a request are bounded together', () => {
  const withSchemas = (count: number, parameters: object) =>
    toolsOf(...Array.from({ length: count }, (_, at) => tool(`f${at}`, { parameters, strict: true })));
  const long = { type: 'object', description: 'x'.repeat(MAX_SCHEMA_CHARACTERS - 100) };
  assert.equal(withSchemas(2, long).length, 2);
  refuses(() => withSchemas(3, long), 'invalid_value', 'tools');
  // No schema is checked before.
  refuses(() => withSchemas(3, { ...long, minProperties: 1 }), 'invalid_value', 'tools');
  // None is visited either: besides the names, only the two sizes are read.
  const properties = definitions(250, () => ({ type: 'string', maxLength: 10, title: 'x'.repeat(100) }));
  const tools = Array.from({ length: 5 }, (_, at) =>
    tool(`f${at}`, { parameters: { type: 'object', properties }, strict: true }),
  );
  const written = readsOf({ tools }, (body) => JSON.stringify(body));
  const readSchemas = readsOf({ tools }, (body) => {
    refuses(() => chat(body as object), 'invalid_value', 'tools');
  });
  assert.ok(readSchemas < 2.2 * written, `${readSchemas} reads; writing takes ${written}`);
  const wide = (count: number) => ({
    type: 'object',
    properties: Object.fromEntries(Array.from({ length: count - 1 }, (_, at) => [`p${at}`, {}])),
  });
  assert.equal(withSchemas(2, wide(MAX_SCHEMA_NODES)).length, 2);
  refuses(() => withSchemas(5, wide(MAX_SCHEMA_NODES / 2)), 'invalid_value', 'tools');
});
