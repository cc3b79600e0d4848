import { ServiceError } from '../../core/errors.ts';
import { MAX_TOOL_CALLS, type Message, type Role, type ToolCall } from '../../core/generation.ts';
import * as fields from './fields.ts';
import { ChatHistory } from '../chat-history.ts';
import type { Element } from '../element.ts';
import { partTables, readContent, reader } from '../elements.ts';
import { Content, readImageDetail, readImageUrl, textOnly } from '../images.ts';
import { JsonBudget } from '../../json/json-body.ts';
import type { Notes } from '../../core/notes.ts';
import { RequestBody } from '../request-body.ts';
import { functionOf } from './tools.ts';
import {
  isLongerThan,
  isWellFormed,
  jsonObject,
  missing,
  unsupported,
  wrongType,
  wrongValue,
} from '../../json/values.ts';

/** Parses `messages`. Throws a 400 with the path of the field. */
export function parseMessages(body: RequestBody): Message[] {
  const list = body.list('messages');
  if (list.length === 0) throw wrongValue('messages', 'an array with at least 1 message');
  const history = new ChatHistory();
  const budget = new JsonBudget();
  for (const [index, message] of list.entries()) {
    if (!addPlainMessage(history, message))
      addMessage(history, message, `messages[${index}]`, budget, body.notes);
  }
  refusePending(history);
  return history.messagesOrEmpty();
}

/** Adds a message of the system or the user that has only a text, as most have. Returns false for any other message. */
function addPlainMessage(history: ChatHistory, value: unknown): boolean {
  const message = jsonObject(value);
  const { role, content } = message;
  if ((role !== 'user' && role !== 'system') || typeof content !== 'string') return false;
  if (Object.keys(message).length > 2 || !content.isWellFormed()) return false;
  addPrompt(history, role, { text: content, images: NO_IMAGES });
  return true;
}

const NO_IMAGES: Content['images'] = [];

type Prompt = Parameters<ChatHistory['addUser']>[0];

function addPrompt(history: ChatHistory, role: 'system' | 'user', content: Prompt): void {
  refusePending(history);
  if (role === 'user') history.addUser(content);
  else history.addSystem(textOnly(content));
}

function addMessage(
  history: ChatHistory,
  value: unknown,
  path: string,
  budget: JsonBudget,
  notes: Notes,
): void {
  const message = new RequestBody(value, fields.FIELDS_OF.chat, notes, path, 'messages[]');
  const role = parseRole(message);
  const content = parseContent(message, role);
  const calls = parseToolCalls(message, budget);
  const toolCallId = message.read(fields.messageToolCallId);
  const [preferred, alias] = [message.optionalText('reasoning_content'), message.optionalText('reasoning')];
  const refusal = message.optionalText('refusal');
  if (role !== 'assistant' && calls.length > 0) {
    throw unsupported(`${path}.tool_calls`, 'is only supported in messages of the role `assistant`');
  }
  if (role !== 'tool' && toolCallId !== null) {
    throw unsupported(`${path}.tool_call_id`, 'is only supported in messages of the role `tool`');
  }
  switch (role) {
    case 'system':
    case 'user':
      addPrompt(history, role, content);
      break;
    case 'assistant': {
      refusePending(history);
      const turn = history.begin(path);
      turn.texts.push(textOnly(content), refusal);
      turn.reasoning.push(preferred || alias);
      for (const call of calls) history.addCall(call);
      break;
    }
    case 'tool':
      if (toolCallId === null) throw missing(`${path}.tool_call_id`);
      if (!history.addResult(toolCallId, content)) {
        throw unpaired(
          path,
          "messages with role 'tool' must be a response to a preceding message with 'tool_calls'. Each call has one response, with its 'tool_call_id'",
        );
      }
  }
}

/**
 * Refuses calls without a result. The error messages about calls and results are those of OpenAI's API, because agents
 * match their text.
 */
function refusePending({ pending, assistantPath }: ChatHistory): void {
  if (pending.length === 0) return;
  throw unpaired(
    assistantPath,
    `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${idList(pending)}`,
  );
}

const ROLES: ReadonlyMap<unknown, Role> = new Map<unknown, Role>([
  ['system', 'system'],
  ['developer', 'system'],
  ['user', 'user'],
  ['assistant', 'assistant'],
  ['tool', 'tool'],
]);

function parseRole(message: RequestBody): Role {
  const value = message.raw(fields.messageRole);
  const role = ROLES.get(value);
  if (role === undefined) {
    const path = message.at('role');
    if (typeof value !== 'string') throw wrongType(path, 'a string', value);
    if (value === 'function') throw unsupported(path, 'does not support `function`; use `tool`');
    throw wrongValue(path, 'one of system, developer, user, assistant, tool');
  }
  return role;
}

/** The assistant can call tools instead of writing text, and tools can return nothing. */
function parseContent(message: RequestBody, role: Role): Content {
  const isRequired = role === 'system' || role === 'user';
  const value = isRequired ? message.required('content') : (message.get('content') ?? '');
  return readContent(value, message.at('content'), message.notes, PARTS_OF[role], new Content(''));
}

/** The content in the parts of OpenAI's and other APIs, such as `input_audio`. */
const MEDIA = [
  ['image', 'images of this type'],
  ['audio', 'audio inputs'],
  ['video', 'videos'],
  ['file', 'files'],
] as const;

const URL_FIELDS = new Set(['url', 'detail']);

/** `cache_control` is accepted without effect, because agents that also support Anthropic's API send it. */
const PARTS = partTables(
  new Map([
    ['text', reader('text cache_control', (part, content) => content.addText(part.text('text')))],
    ['refusal', reader('refusal', (part, content) => content.addText(part.text('refusal')))],
    ['image_url', reader('image_url cache_control', addImage)],
  ]),
  (part) => mediaOf(part) !== undefined,
  partRefused,
);

const PARTS_OF = { system: PARTS.other, assistant: PARTS.other, user: PARTS.user, tool: PARTS.result };

function addImage(part: Element, content: Content): void {
  const image = part.element('image_url');
  image.noteUnknown(URL_FIELDS);
  content.addImage(readImageUrl(image, 'url'), readImageDetail(image));
}

function mediaOf({ type }: Element): string | undefined {
  return MEDIA.find(([name]) => type.includes(name))?.[1];
}

function partRefused(part: Element): ServiceError {
  const media = mediaOf(part);
  const reason = media === undefined ? '' : `; ${media} are not supported`;
  return unsupported(part.at('type'), `must be \`text\` or \`image_url\`${reason}`);
}

function parseToolCalls(message: Element, budget: JsonBudget): ToolCall[] {
  if (message.get('tool_calls') === null) return [];
  if (message.list('tool_calls').length > MAX_TOOL_CALLS)
    throw wrongValue(message.at('tool_calls'), `at most ${MAX_TOOL_CALLS} calls`);
  const ids = new Set<string>();
  return message.elements('tool_calls').map((element) => {
    const call = parseToolCall(element, budget);
    if (ids.has(call.id)) throw wrongValue(element.at('id'), 'unique in the message');
    ids.add(call.id);
    return call;
  });
}

/**
 * `index`, `extra_content` and `cache_control` have no effect, but clients send them back. `index` is left over from
 * the chunks of a stream. The AI SDK stores signatures of other providers in `extra_content`.
 */
const CALL_FIELDS = new Set(['id', 'type', 'function', 'index', 'extra_content', 'cache_control']);
/** OpenAI's libraries add `parsed_arguments` to calls that they parsed. It has no effect. */
const CALLED_FIELDS = new Set(['name', 'arguments', 'parsed_arguments']);

function parseToolCall(call: Element, budget: JsonBudget): ToolCall {
  const called = functionOf(call, CALL_FIELDS);
  called.noteUnknown(CALLED_FIELDS);
  return {
    id: parseCallId(call, 'id'),
    name: parseCalledName(called, 'name'),
    arguments: parseArguments(called, budget),
  };
}

/** Parses the ID of a call in a field. */
export function parseCallId(element: Element, name: string): string {
  return fields.messageToolCallId.read(element.required(name), element.at(name)) ?? '';
}

/** Parses the name of a function that a model called, which functions may be unable to have, such as `fs.read`. */
export function parseCalledName(element: Element, field: string): string {
  const name = element.string(field).toWellFormed();
  if (name === '' || isLongerThan(name, fields.MAX_CALL_ID))
    throw wrongValue(element.at(field), `1 to ${fields.MAX_CALL_ID} characters long`);
  return name;
}

/**
 * Returns the JSON text of an object in `arguments`. Any other text becomes a member of an object: responses can contain it, for
 * example because a model's arguments were cut off, and servers and templates need an object. The budget bounds the
 * values of all calls of the request; text beyond it is not parsed.
 */
export function parseArguments(called: Element, budget: JsonBudget): string {
  const value = called.string('arguments');
  // Servers return an empty text for functions without parameters.
  if (value === '') return '{}';
  const text = value.toWellFormed();
  const parsed = budget.exceededBy(Buffer.from(text)) === null ? parseOrNull(text) : null;
  const isObject = parsed !== null && jsonObject(parsed) === parsed;
  // Well-formed text can contain lone surrogates as escapes.
  return isObject && isWellFormed(parsed) ? text : JSON.stringify({ INVALID_JSON: text });
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Maximum number of IDs in an error message. */
const MAX_IDS = 5;
/** IDs that error messages may repeat. Any other ID might contain text from the conversation. */
const CALL_ID = /^[\w-]{1,64}$/;

/** Lists the IDs of calls in an error message. */
export function idList(callIds: readonly string[]): string {
  const ids = callIds.slice(0, MAX_IDS).map((id) => (CALL_ID.test(id) ? id : '…'));
  const others = callIds.length > MAX_IDS ? `, and ${callIds.length - MAX_IDS} others` : '';
  return ids.join(', ') + others;
}

function unpaired(path: string, why: string): ServiceError {
  return new ServiceError('invalid_value', `\`${path}\`: ${why}.`, { param: path });
}
