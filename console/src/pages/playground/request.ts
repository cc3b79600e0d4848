import { streamed } from '../../api/generate.ts';
import { readJson } from '../../format/json.ts';
import {
  awaitsResults,
  canRespond,
  hasInput,
  inputOf,
  sentCalls,
  type Column,
  type Draft,
  type Turn,
} from './draft.ts';
import { BUDGET, chosenFunction, numbersOf, unescaped, type Settings } from './settings.ts';
import { readTools } from './tools.ts';

/** A request body of the API. */
export type RequestBody = Readonly<Record<string, unknown>>;

/** Values to send for parameters that the user has not set, by API name. */
export type Recommended = Readonly<Record<string, number | undefined>>;

/** Returns the sampling parameters that the model's publisher recommends. */
export function recommendedOf(
  models: readonly { id: string; recommended_sampling: Recommended }[],
  id: string,
): Recommended {
  return models.find((model) => model.id === id)?.recommended_sampling ?? {};
}

/**
 * Returns the request for the response in the turn `until`, without stream parameters. If `until` is null, returns the
 * request for the next response, after all turns and the current input. The settings must be valid.
 */
export function requestOf(
  draft: Draft,
  { model, turns }: Column,
  recommended: Recommended,
  until: string | null = null,
): RequestBody {
  const at = until === null ? turns.length : turns.findIndex(({ id }) => id === until);
  const before = turns.slice(0, at === -1 ? turns.length : at);
  return {
    model,
    messages: messagesOf(draft, before, until === null),
    ...settingsOf(draft.settings, recommended),
  };
}

/** Returns the full request that would be sent next, or the last one sent if there is nothing to send. */
export function sentRequest(draft: Draft, column: Column, recommended: Recommended): RequestBody {
  const last = column.turns.at(-1);
  const hasNext = canRespond(column) || (hasInput(draft) && !awaitsResults(column));
  const answered = !hasNext && last?.role === 'assistant' ? last.id : null;
  return streamed(requestOf(draft, column, recommended, answered), draft.settings.stream);
}

/** A message of a chat request. */
type Message = Readonly<Record<string, unknown>>;

/**
 * Returns the messages of a chat: the system prompt, these turns and, with `withInput`, the input. Responses with
 * neither text nor calls are skipped.
 */
function messagesOf(draft: Draft, turns: readonly Turn[], withInput: boolean): Message[] {
  const typed = withInput && hasInput(draft);
  const endsWithUser = typed && draft.inputRole === 'user';
  const lastUser = endsWithUser ? turns.length : turns.findLastIndex(({ role }) => role === 'user');
  return [
    ...(draft.system.trim() === '' ? [] : [{ role: 'system', content: draft.system }]),
    ...turns.flatMap((turn, index) => turnMessages(turn, index > lastUser)),
    ...(typed
      ? [
          draft.inputRole === 'user'
            ? userMessage(inputOf(draft), draft.images)
            : { role: draft.inputRole, content: inputOf(draft) },
        ]
      : []),
  ];
}

/** Returns the messages of a turn: the calls of a response are followed by their results. */
function turnMessages(turn: Turn, afterLastUser: boolean): Message[] {
  const { role, text } = turn;
  if (role === 'user') return [userMessage(text, turn.images)];
  const calls = sentCalls(turn);
  if (calls.length === 0) return text === '' ? [] : [{ role, content: text }];
  // Models continue their reasoning when they get the results. Reasoning before the last user message is not sent,
  // because chat templates leave it out.
  const reasoning = afterLastUser ? (turn.answer?.choices[turn.answer.chosen]?.reasoning ?? '') : '';
  return [
    {
      role,
      content: text === '' ? null : text,
      ...(reasoning !== '' && { reasoning_content: reasoning }),
      tool_calls: calls.map((call) => ({
        id: call.id,
        type: 'function',
        function: { name: call.name, arguments: call.arguments === '' ? '{}' : call.arguments },
      })),
    },
    ...calls.map(({ id, result }) => ({ role: 'tool', tool_call_id: id, content: result })),
  ];
}

/** Images come before the text, because models read a question best after what it is about. */
function userMessage(text: string, images: readonly string[]): Message {
  if (images.length === 0) return { role: 'user', content: text };
  const parts = images.map((url) => ({ type: 'image_url', image_url: { url } }));
  return { role: 'user', content: text === '' ? parts : [...parts, { type: 'text', text }] };
}

function settingsOf(settings: Settings, recommended: Recommended): RequestBody {
  const numbers: Record<string, number> = {};
  for (const { name } of numbersOf(settings)) {
    const typed = settings.numbers[name]?.trim() ?? '';
    const value = typed === '' ? recommended[name] : Number(typed);
    if (value !== undefined) numbers[name] = value;
  }
  const { top_logprobs: alternatives, [BUDGET.name]: budget, ...others } = numbers;
  const stop = settings.stop.filter((typed) => typed !== '').map(unescaped);
  return {
    ...others,
    ...(stop.length > 0 && { stop }),
    ...(settings.logprobs && {
      logprobs: true,
      ...(alternatives !== undefined && { top_logprobs: alternatives }),
    }),
    ...formatOf(settings),
    ...(settings.user !== '' && { user: settings.user }),
    ...toolsOf(settings),
    ...reasoningOf(settings),
    ...(budget !== undefined && { reasoning: { max_tokens: budget } }),
  };
}

/** Without tools, the API refuses or ignores the other fields. */
function toolsOf({ tools: text, toolChoice, parallelToolCalls }: Settings): RequestBody {
  const read = readTools(text);
  // Invalid tools are only shown in code samples.
  const tools = 'tools' in read ? read.tools : valueOf(text);
  if (Array.isArray(tools) && tools.length === 0) return {};
  const name = chosenFunction(toolChoice);
  return {
    tools,
    ...(toolChoice !== 'auto' && {
      tool_choice: name === null ? toolChoice : { type: 'function', function: { name } },
    }),
    ...(!parallelToolCalls && { parallel_tool_calls: false }),
  };
}

function reasoningOf({ reasoningEffort, templateVariables }: Settings): RequestBody {
  return {
    ...(reasoningEffort !== '' && { reasoning_effort: reasoningEffort }),
    ...(templateVariables.trim() !== '' && { chat_template_kwargs: valueOf(templateVariables) }),
  };
}

function formatOf({ format, schemaName, schema }: Settings): RequestBody {
  switch (format) {
    case 'text':
      return {};
    case 'json_object':
      return { response_format: { type: 'json_object' } };
    case 'json_schema': {
      const json_schema = { name: schemaName, schema: valueOf(schema) };
      return { response_format: { type: 'json_schema', json_schema } };
    }
  }
}

/** Parses JSON. Invalid JSON is returned as text for code samples; it is never sent. */
function valueOf(text: string): unknown {
  const read = readJson(text);
  return 'value' in read ? read.value : text;
}
