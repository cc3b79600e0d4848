import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { ApiError } from '../../console/src/api/client.ts';
import type { GenerateEvent } from '../../console/src/api/generate.ts';
import {
  afterEvent,
  emptyAnswer,
  emptyText,
  speedOf,
  costOf,
  type Answer,
} from '../../console/src/pages/playground/answer.ts';
import {
  added,
  answered,
  edited,
  EMPTY_DRAFT,
  forNewTab,
  isRunning,
  newChat,
  opened,
  removedTurns,
  rerun,
  sent,
  withModel,
  withoutColumn,
  withoutTurn,
  type Draft,
} from '../../console/src/pages/playground/draft.ts';
import { initialModel } from '../../console/src/pages/playground/model-text.ts';
import {
  advancedSet,
  areDefaults,
  DEFAULTS,
  type Settings,
} from '../../console/src/pages/playground/settings.ts';
import { fromTabText, tabText } from '../../console/src/pages/playground/tab-text.ts';
import { costOf as serviceCost, perMillionText, usdText } from '../../src/accounts/ledger/cost.ts';
import { picoPerToken } from '../../src/config/model.ts';

const PRICING = { prompt: '0.59', completion: '0.79', input_cache_read: '0.1' };

/** Returns the response after these events. */
function answerOf(...events: GenerateEvent[]): Answer {
  return events.reduce((answer, event) => afterEvent(answer, event, PRICING), emptyAnswer('acme/one'));
}

const text = (words: string, choice = 0): GenerateEvent => ({
  type: 'text',
  choice,
  text: words,
  logprobs: [],
});
const USAGE = { promptTokens: 36, completionTokens: 9, reasoningTokens: 4, cachedTokens: 35 };
const ANSWER = answerOf(
  { type: 'accepted', requestId: 'req-1' },
  { type: 'first_token', ttftMs: 100 },
  { type: 'text', choice: 0, text: 'Hel', logprobs: [{ token: 'Hel', logprob: -1, top: [] }] },
  text('lo'),
  text('Hi', 1),
  { type: 'finish', choice: 0, reason: 'stop' },
  { type: 'usage', usage: USAGE },
  { type: 'end', totalMs: 500 },
);

const withModels = (...models: string[]): Draft =>
  models.reduce((draft, model, column) => withModel(draft, column, model), EMPTY_DRAFT);

/** Returns the turns of each column as role and text. */
const turnsOf = ({ columns }: Draft) =>
  columns.map(({ turns }) => turns.map(({ role, text }) => `${role}: ${text}`));

/** Returns a draft as the tab restores it. */
const restored = (draft: Draft) => fromTabText(tabText({ ...draft, id: draft.id || 'c1' }, [])).draft;

/** Sends the input and adds a response to every column. */
function talk(draft: Draft, input: string): Draft {
  const next = sent({ ...draft, input });
  const ids = next.columns.map(({ turns }) => turns.at(-1)?.id ?? '');
  return ids.reduce((draft, id) => answered(draft, id, () => ANSWER), next);
}

test('a response collects its events, cost and throughput', () => {
  assert.deepEqual(
    ANSWER.choices.map(({ text, finish }) => [text, finish]),
    [
      ['Hello', 'stop'],
      ['Hi', null],
    ],
  );
  assert.equal(ANSWER.requestId, 'req-1');
  // One prompt token, 35 cached ones and nine of the completion.
  assert.equal(ANSWER.cost, '0.0000112');
  // Eight tokens after the first one in 400 ms.
  assert.equal(speedOf(ANSWER), 20);
});

test('reasoning is separate from the text', () => {
  const answer = answerOf(
    { type: 'reasoning', choice: 0, text: 'H' },
    { type: 'reasoning', choice: 0, text: 'm' },
    text('Yes'),
  );
  assert.deepEqual(
    answer.choices.map((choice) => [choice.reasoning, choice.text]),
    [['Hm', 'Yes']],
  );
});

test('an error keeps the text so far and removes the cost', () => {
  const error = new ApiError('No.', { status: 429, code: 'requests_per_minute', retryAfterMs: 2000 });
  const before = Date.now();
  const answer = answerOf(text('Hel'), { type: 'usage', usage: USAGE }, { type: 'fault', error });
  assert.deepEqual([answer.choices[0]?.text, answer.cost, answer.fault?.code], ['Hel', null, error.code]);
  assert.ok((answer.fault?.retryAtMs ?? 0) >= before + 2000);
});

test('the cost is exactly the same as the service computes', () => {
  const price = fc.tuple(fc.nat(999_999), fc.nat(999_999)).map(([whole, micros]) => {
    return `${whole}.${String(micros).padStart(6, '0')}`;
  });
  const tokens = fc.tuple(fc.nat(), fc.nat(), fc.nat());
  fc.assert(
    fc.property(
      tokens,
      price,
      price,
      fc.option(price),
      ([promptTokens, some, completionTokens], prompt, completion, cached) => {
        const cachedTokens = some % (promptTokens + 1);
        const usage = { promptTokens, completionTokens, reasoningTokens: 0, cachedTokens };
        const pico = {
          prompt: picoPerToken(prompt),
          completion: picoPerToken(completion),
          inputCacheRead: cached === null ? null : Math.min(picoPerToken(cached), picoPerToken(prompt)),
        };
        const pricing = {
          prompt,
          completion,
          input_cache_read: pico.inputCacheRead === null ? null : perMillionText(pico.inputCacheRead),
        };
        assert.equal(costOf(usage, pricing), usdText(serviceCost(usage, pico)));
      },
    ),
  );
  assert.equal(costOf(USAGE, { prompt: '0', completion: '0', input_cache_read: null }), '0');
});

test('input is sent to every model, and each responds in its column', () => {
  const draft = talk(withModels('acme/one', 'acme/two'), 'Hello');
  assert.deepEqual(turnsOf(draft), [
    ['user: Hello', 'assistant: Hello'],
    ['user: Hello', 'assistant: Hello'],
  ]);
  assert.equal(draft.input, '');
});

test('input is sent without trailing white space', () => {
  const draft = { ...withModels('acme/one'), input: '  Hello\n world \n\n' };
  assert.deepEqual(turnsOf(sent(draft))[0]?.[0], 'user:   Hello\n world');
  assert.deepEqual(turnsOf(added(draft))[0], ['user:   Hello\n world']);
});

test('a second column gets another model, ready ones first', () => {
  const models = [
    { id: 'acme/down', state: 'down' },
    { id: 'acme/loading', state: 'loading' },
    { id: 'acme/ready', state: 'ready' },
  ] as const;
  assert.equal(initialModel(models), 'acme/ready');
  assert.equal(initialModel(models, ['acme/ready']), 'acme/loading');
  assert.equal(initialModel(models.slice(0, 1), ['acme/ready']), 'acme/down');
  assert.equal(initialModel(models.slice(2), ['acme/ready']), 'acme/ready');
  assert.equal(initialModel([]), '');
});

test('advanced parameters that differ from their defaults are counted', () => {
  const set = (values: Partial<Settings>) => advancedSet({ ...DEFAULTS, ...values });
  assert.equal(set({}), 0);
  assert.equal(set({ numbers: { temperature: '0', max_tokens: '9' } }), 0);
  assert.equal(set({ numbers: { seed: '1', top_p: ' ' }, stop: ['', 'END'], stream: false }), 3);
});

test('settings that are restored from the browser or typed and deleted again are the defaults', () => {
  const settingsAfter = (settings: Settings) => restored({ ...EMPTY_DRAFT, settings }).settings;
  assert.ok(areDefaults(settingsAfter(DEFAULTS)));
  assert.ok(areDefaults({ ...DEFAULTS, numbers: { seed: '' } }));
  assert.ok(!areDefaults(settingsAfter({ ...DEFAULTS, numbers: { seed: '1' } })));
  assert.ok(!areDefaults({ ...DEFAULTS, stop: ['END'] }));
});

test('a second model starts with a copy of the conversation', () => {
  const draft = withModel(talk(withModels('acme/one'), 'Hello'), 1, 'acme/two');
  assert.deepEqual(turnsOf(draft)[1], ['user: Hello', 'assistant: Hello']);
  const ids = draft.columns.flatMap(({ turns }) => turns.map(({ id }) => id));
  assert.equal(new Set(ids).size, 4);
  assert.deepEqual(turnsOf(withoutColumn(draft, 0)), [['user: Hello', 'assistant: Hello']]);
});

test('without input, only a conversation that ends with a user message is sent', () => {
  const typed = added({ ...withModels('acme/one'), input: 'Hello' });
  assert.deepEqual(turnsOf(typed), [['user: Hello']]);
  assert.ok(isRunning(sent(typed)));
  assert.ok(!isRunning(sent(talk(EMPTY_DRAFT, 'Hello'))));
  assert.ok(!isRunning(sent(EMPTY_DRAFT)));
});

test('running again from a turn replaces later turns of its column', () => {
  const draft = talk(talk(withModels('acme/one', 'acme/two'), 'one'), 'two');
  const [first, answer] = draft.columns[0]?.turns ?? [];
  assert.ok(first && answer);
  const fromUser = rerun(draft, first.id);
  assert.deepEqual(turnsOf(fromUser)[0], ['user: one', 'assistant: ']);
  assert.equal(turnsOf(fromUser)[1]?.length, 4);
  assert.deepEqual(turnsOf(rerun(draft, answer.id))[0], ['user: one', 'assistant: ']);
  assert.equal(removedTurns(draft, fromUser), 3);
  const replaced = rerun(draft, first.id, 'uno');
  assert.deepEqual(turnsOf(replaced)[0], ['user: uno', 'assistant: ']);
  assert.equal(removedTurns(draft, replaced), 4);
});

test('editing a turn removes its response data', () => {
  const draft = talk(withModels('acme/one'), 'Hello');
  const turn = draft.columns[0]?.turns[1];
  assert.ok(turn);
  const { text, answer } = edited(draft, turn.id, 'Good day').columns[0]?.turns[1] ?? {};
  assert.deepEqual([text, answer], ['Good day', null]);
  assert.deepEqual(turnsOf(withoutTurn(draft, turn.id)), [['user: Hello']]);
});

test('the conversation continues with the selected choice', () => {
  const draft = talk(withModels('acme/one'), 'Hello');
  const id = draft.columns[0]?.turns[1]?.id ?? '';
  const chosen = answered(draft, id, (answer) => ({ ...answer, chosen: 1 }));
  assert.deepEqual(turnsOf(chosen), [['user: Hello', 'assistant: Hi']]);
});

test('at most four models are compared', () => {
  const { columns } = withModels('a/1', 'a/2', 'a/3', 'a/4', 'a/5');
  assert.deepEqual(
    columns.map(({ model }) => model),
    ['a/1', 'a/2', 'a/3', 'a/4'],
  );
});

test('a new chat keeps models, system prompt, parameters and input; a new tab keeps only the input of a chat that has not begun', () => {
  const settings = { ...DEFAULTS, user: 'me' };
  const typed: Draft = {
    ...withModels('acme/one', 'acme/two'),
    id: 'c1',
    system: 'Be brief.',
    input: 'Hm',
    settings,
  };
  const talked = { ...talk(typed, 'Hello'), input: 'Hm' };
  const next = newChat(talked);
  assert.notEqual(next.id, talked.id);
  assert.deepEqual({ ...next, id: 'c1' }, typed);
  assert.deepEqual(forNewTab(typed), { ...typed, id: '' });
  assert.deepEqual(forNewTab(talked), { ...typed, id: '', input: '' });
});

test('storage restores the playground, with responses in progress as stopped', () => {
  const draft: Draft = {
    ...talk(withModels('acme/one', 'acme/two'), 'Hello'),
    system: 'Be brief.',
    input: 'half a sen',
    settings: { ...DEFAULTS, numbers: { temperature: '0.', top_k: '40' }, stop: ['END'], stream: false },
  };
  assert.deepEqual(restored({ ...draft, inputRole: 'assistant' }), {
    ...draft,
    id: 'c1',
    inputRole: 'assistant',
  });
  const underWay = sent(draft);
  assert.deepEqual(turnsOf(restored(underWay))[0]?.at(-1), 'user: half a sen');
  const [id = ''] = underWay.columns.map(({ turns }) => turns.at(-1)?.id ?? '');
  const accepted = answered(underWay, id, (answer) => ({ ...answer, requestId: 'req-2' }));
  const [first, second] = restored(accepted).columns.map(({ turns }) => turns.at(-1));
  assert.deepEqual([first?.answer?.stopped, second?.role], [true, 'user']);
});

test('what another version stored is ignored, and settings that it lacks get their defaults', () => {
  for (const bad of [null, '', '{', '7', '[]', '{"columns": []}', '{"version": 0, "draft": {}}']) {
    const { draft, revisions } = fromTabText(bad);
    assert.deepEqual([{ ...draft, id: '' }, revisions], [EMPTY_DRAFT, []], String(bad));
  }
  const { user: _, ...older } = DEFAULTS;
  assert.equal(opened({ ...EMPTY_DRAFT, settings: older as Settings }).settings.user, '');
});

test('an empty response shows why it is empty', () => {
  const textFor = (reason: string, events: readonly GenerateEvent[] = []) => {
    const all: GenerateEvent[] = [...events, { type: 'finish', choice: 0, reason }];
    return emptyText(all.reduce((answer, event) => afterEvent(answer, event, null), emptyAnswer('m')));
  };
  const reasoning: GenerateEvent = { type: 'reasoning', choice: 0, text: 'Hm' };
  assert.match(textFor('stop'), /empty/);
  assert.match(textFor('stop', [reasoning]), /only reasoning/);
  assert.match(textFor('length', [reasoning]), /Raise the maximum tokens/);
  for (const events of [[], [reasoning]]) assert.match(textFor('content_filter', events), /content filter/);
});
