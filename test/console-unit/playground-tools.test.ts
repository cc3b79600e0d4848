/** Tools and tool calls of the playground. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import type { GenerateEvent } from '../../console/src/api/generate.ts';
import {
  afterEvent,
  emptyAnswer,
  formatArguments,
  isCompleteCall,
} from '../../console/src/pages/playground/answer.ts';
import {
  answered,
  continued,
  edited,
  EMPTY_DRAFT,
  isRunning,
  sent,
  withModel,
  withResult,
  type Draft,
} from '../../console/src/pages/playground/draft.ts';
import { capabilityWarning } from '../../console/src/pages/playground/model-text.ts';
import { requestOf, sentRequest } from '../../console/src/pages/playground/request.ts';
import { REASONING_EFFORTS, validationErrors } from '../../console/src/pages/playground/settings.ts';
import { TOOL_PRESETS, readTools, toolNames } from '../../console/src/pages/playground/tools.ts';
import * as serviceFields from '../../src/protocols/openai/fields.ts';
import { Notes } from '../../src/core/notes.ts';
import { parseChatRequest } from '../../src/protocols/openai/request.ts';

const PARSING = { maxChoices: 16, notes: new Notes(true) };
const MODEL = 'acme/one';

/** Returns the service's error for these fields; null: accepted. */
function refusalOf(fields: Readonly<Record<string, unknown>>): string | null {
  try {
    parseChatRequest({ model: MODEL, messages: [{ role: 'user', content: 'Hi' }], ...fields }, PARSING);
    return null;
  } catch (error) {
    return String(error);
  }
}

const toolsError = (value: unknown): string | null => {
  const read = readTools(typeof value === 'string' ? value : JSON.stringify(value));
  return 'error' in read ? read.error : null;
};

test('tools are read from tool objects and from functions', () => {
  const bare = { name: 'a', description: 'A.', parameters: { type: 'object' }, strict: true };
  const wrapped = { type: 'function', function: bare };
  for (const value of [[bare], [wrapped], [{ type: 'function', ...bare }]]) {
    assert.deepEqual(readTools(JSON.stringify(value)), { tools: [wrapped] });
  }
  assert.deepEqual(readTools(' \n'), { tools: [] });
  assert.deepEqual(toolNames(JSON.stringify([bare, { name: 'b' }])), ['a', 'b']);
  assert.deepEqual(toolNames('[{"name"'), []);
});

test('tools are a JSON array of functions with names', () => {
  assert.match(toolsError('[{') ?? '', /^Invalid JSON: /);
  assert.match(toolsError({ name: 'a' }) ?? '', /array/);
  for (const bad of [7, {}, { type: 'web_search' }, { type: 'function', function: null }, { name: 1 }])
    assert.match(toolsError([{ name: 'a' }, bad]) ?? '', /^tools\[1\] must be/, JSON.stringify(bad));
});

test('the efforts of reasoning are those of the API', () => {
  assert.deepEqual(serviceFields.reasoningEffort.schema.enum, REASONING_EFFORTS);
});

test('the service accepts the example tools', () => {
  for (const { title, text } of TOOL_PRESETS) {
    const read = readTools(text);
    assert.ok('tools' in read && read.tools.length > 0, title);
    assert.equal(refusalOf({ tools: read.tools }), null);
  }
});

test('template variables are a JSON object', () => {
  const errors = (templateVariables: string) =>
    Object.keys(validationErrors({ ...EMPTY_DRAFT.settings, templateVariables }));
  for (const good of ['', '{"enable_thinking": {"a b": 1}}']) assert.deepEqual(errors(good), []);
  for (const bad of ['{', '[]', 'null']) assert.deepEqual(errors(bad), ['chat_template_kwargs'], bad);
});

test('a chosen function must be among the tools, unless there are no tools', () => {
  const errors = (tools: string) =>
    Object.keys(validationErrors({ ...EMPTY_DRAFT.settings, tools, toolChoice: 'function:a' }));
  assert.deepEqual(errors('[{"name": "a"}]'), []);
  assert.deepEqual(errors('[{"name": "b"}]'), ['tool_choice']);
  assert.deepEqual(errors(''), []);
  assert.deepEqual(errors('[{'), ['tools']);
});

test('a warning names models that lack a capability, or for which it is unknown', () => {
  const model = { id: 'acme/one', tools: null, reasoning: false };
  assert.match(capabilityWarning(model, 'tools') ?? '', /unknown whether one supports tools/);
  assert.match(capabilityWarning(model, 'reasoning') ?? '', /one does not support reasoning/);
  assert.equal(capabilityWarning({ ...model, tools: true }, 'tools'), null);
});

test('arguments are indented without any other change, even while they are arriving', () => {
  assert.equal(
    formatArguments('{"a":[1,{}],"b":"x, {y"}'),
    '{\n  "a": [\n    1,\n    {}\n  ],\n  "b": "x, {y"\n}',
  );
  assert.equal(formatArguments('{"a":"b\\"c'), '{\n  "a": "b\\"c');
  assert.equal(formatArguments('{"n":12345678901234567890}'), '{\n  "n": 12345678901234567890\n}');
  fc.assert(
    fc.property(fc.json(), fc.nat(), (json, length) => {
      assert.deepEqual(JSON.parse(formatArguments(json)), JSON.parse(json));
      const compact = JSON.stringify(JSON.parse(json));
      const part = compact.slice(0, length);
      assert.ok(formatArguments(compact).startsWith(formatArguments(part).trimEnd()), part);
    }),
  );
  const depth = 20_000;
  assert.ok(formatArguments('['.repeat(depth)).length < 40 * depth);
});

test('a call is complete if its arguments are a JSON object or empty', () => {
  for (const good of ['', '{}', ' {"a": 1} ']) assert.ok(isCompleteCall({ arguments: good }), good);
  for (const bad of ['{"a":', '[]', '1', 'null', 'x']) assert.ok(!isCompleteCall({ arguments: bad }), bad);
});

/** A response with reasoning and these calls, in pieces. */
function responseOf(...calls: { id: string; arguments: string }[]) {
  const events: GenerateEvent[] = [
    { type: 'reasoning', choice: 0, text: 'Hm.' },
    ...calls.flatMap(({ id, arguments: json }, call): GenerateEvent[] => [
      { type: 'tool_call', choice: 0, call, id, name: 'get_weather', arguments: '' },
      ...Array.from(json, (piece): GenerateEvent => ({
        type: 'tool_call',
        choice: 0,
        call,
        arguments: piece,
      })),
    ]),
    { type: 'finish', choice: 0, reason: 'tool_calls' },
    { type: 'end', totalMs: 5 },
  ];
  return events.reduce((answer, event) => afterEvent(answer, event), emptyAnswer(MODEL));
}

const ZURICH = { id: 'call_1', arguments: '{"city":"Zurich"}' };
const BERN = { id: 'call_2', arguments: '{"city":"Bern"}' };

/** A conversation in which the model called the function, without results. */
function called(...calls: { id: string; arguments: string }[]): Draft {
  const draft = sent(withModel({ ...EMPTY_DRAFT, input: 'How warm is it?' }, 0, MODEL));
  return answered(draft, draft.columns[0]?.turns.at(-1)?.id ?? '', () => responseOf(...calls));
}

function withResults(draft: Draft, ...ids: string[]): Draft {
  const turn = callerOf(draft);
  return ids.reduce((draft, call) => withResult(draft, turn.id, call, `result of ${call}`), draft);
}

function callerOf({ columns }: Draft) {
  const turn = columns[0]?.turns.find(({ calls }) => calls.length > 0);
  assert.ok(turn);
  return turn;
}

function messagesOf(draft: Draft, until: string | null = null) {
  const [column] = draft.columns;
  assert.ok(column);
  const body = requestOf(draft, column, {}, until);
  assert.equal(refusalOf({ messages: body['messages'] }), null);
  return body['messages'] as Record<string, unknown>[];
}

test('results follow the message with the calls and its reasoning', () => {
  const draft = withResults(called(ZURICH, BERN), 'call_1', 'call_2');
  const next = continued(draft, callerOf(draft).id);
  const callOf = ({ id, arguments: json }: typeof ZURICH) => ({
    id,
    type: 'function',
    function: { name: 'get_weather', arguments: json },
  });
  assert.deepEqual(messagesOf(next, next.columns[0]?.turns.at(-1)?.id), [
    { role: 'user', content: 'How warm is it?' },
    {
      role: 'assistant',
      content: null,
      reasoning_content: 'Hm.',
      tool_calls: [callOf(ZURICH), callOf(BERN)],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'result of call_1' },
    { role: 'tool', tool_call_id: 'call_2', content: 'result of call_2' },
  ]);
});

test('reasoning before the last user message is not sent', () => {
  const draft = { ...withResults(called(ZURICH), 'call_1'), input: 'And tomorrow?' };
  const messages = messagesOf(draft);
  assert.deepEqual(
    messages.map(({ role }) => role),
    ['user', 'assistant', 'tool', 'user'],
  );
  assert.ok(messages.every((message) => !('reasoning_content' in message)));
});

test('calls with incomplete arguments are not sent and need no result', () => {
  const cut = { id: 'call_2', arguments: '{"city":"Be' };
  const draft = withResults(called(ZURICH, cut), 'call_1');
  assert.ok(isRunning(sent(draft)));
  const [, assistant, ...results] = messagesOf(draft);
  assert.deepEqual(
    (assistant?.['tool_calls'] as { id: string }[] | undefined)?.map(({ id }) => id),
    ['call_1'],
  );
  assert.equal(results.length, 1);
  const only = called(cut);
  assert.equal(isRunning(sent(only)), false);
  assert.deepEqual(
    messagesOf({ ...only, input: 'Again.' }).map(({ role }) => role),
    ['user', 'user'],
  );
});

test('no message is sent before every call has a result', () => {
  const draft = { ...withResults(called(ZURICH, BERN), 'call_1'), input: 'And tomorrow?' };
  assert.equal(sent(draft), draft);
  const complete = withResults(draft, 'call_2');
  assert.ok(isRunning(sent(complete)));
});

test('results are kept when the usage of the response is added', () => {
  const draft = withResults(called(ZURICH), 'call_1');
  const { id } = callerOf(draft);
  const again = answered(draft, id, () => responseOf(ZURICH));
  assert.equal(callerOf(again).calls[0]?.result, 'result of call_1');
  assert.equal(callerOf(edited(draft, id, 'Let me look.')).calls.length, 1);
});

test('a second column keeps calls and results', () => {
  const draft = withResults(called(ZURICH), 'call_1');
  const compared = withModel(draft, 1, 'acme/two');
  assert.deepEqual(compared.columns[1]?.turns.at(-1)?.calls, callerOf(draft).calls);
});

test('code samples contain the results once every call has one', () => {
  const roles = (draft: Draft) => {
    const [column] = draft.columns;
    assert.ok(column);
    const { messages } = sentRequest(draft, column, {}) as { messages: { role: string }[] };
    return messages.map(({ role }) => role);
  };
  assert.deepEqual(roles(called(ZURICH)), ['user']);
  assert.deepEqual(roles({ ...called(ZURICH), input: 'Hello?' }), ['user']);
  assert.deepEqual(roles(withResults(called(ZURICH), 'call_1')), ['user', 'assistant', 'tool']);
});
