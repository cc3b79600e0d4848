import { ServiceError } from '../../core/errors.ts';
import { MAX_TOOL_CALLS, type Message, type Role, type ToolCall } from '../../core/generation.ts';
import type { Field } from '../field.ts';
import * as fields from './fields.ts';
import { ChatHistory } from '../chat-history.ts';
import { partTables, readContent, reader, type Element } from '../elements.ts';
import { Content, readImageDetail, readImageUrl, textOnly } from '../images.ts';
import { JsonBudget } from '../../json/json-body.ts';
import type { Notes } from '../../core/notes.ts';
import { RequestBody } from '../request-body.ts';
import { functionOf } from './tools.ts';
import {
  asObject,
  asString,
  isLongerThan,
  isWellFormed,
  jsonObject,
  missing,
  noteUnknown,
  unsupported,
  wrongType,
  wrongValue,
} from '../../json/values.ts';

/** Parses `messages`. Throws a 400 with the path of the field. */
export function parseMessages(body: RequestBody): Message[] {
  const value = body.raw(fields.messages);
  if (!Array.isArray(value)) throw wrongType('messages', 'an array', value);
  if (value.length === 0) throw wrongValue('messages', 'an array with at least 1 message');
  const history = new ChatHistory();
  const budget = new JsonBudget();
  for (const [index, message] of value.entries()) {
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
  refusePending(history);
  if (role === 'user') history.addUser({ text: content, images: [] });
  else history.addSystem(content);
  return true;
}

function addMessage(
  history: ChatHistory,
  value: unknown,
  path: string,
  budget: JsonBudget,
  notes: Notes,
): void {
  const object = asObject(value, path);
  const message = new RequestBody(object, fields.FIELDS_OF.chat, notes, 'messages[].', `${path}.`);
  const role = parseRole(message.raw(fields.messageRole), `${path}.role`);
  const content = parseContent(message, role, `${path}.content`);
  const calls = parseToolCalls(message.raw(fields.messageToolCalls), `${path}.tool_calls`, budget, notes);
  const toolCallId = message.read(fields.messageToolCallId);
  const reasoning = parseReasoning(message, path);
  const refusal = textOf(message, fields.messageRefusal, path);
  if (role !== 'assistant' && calls.length > 0) {
    throw unsupported(`${path}.tool_calls`, 'is only supported in messages of the role `assistant`');
  }
  if (role !== 'tool' && toolCallId !== null) {
    throw unsupported(`${path}.tool_call_id`, 'is only supported in messages of the role `tool`');
  }
  if (role !== 'tool') refusePending(history);
  switch (role) {
    case 'system':
      history.addSystem(textOnly(content));
      break;
    case 'user':
      history.addUser(content);
      break;
    case 'assistant': {
      const turn = history.begin(path);
      turn.texts.push(textOnly(content), refusal);
      turn.reasoning.push(reasoning);
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

function parseRole(value: unknown, path: string): Role {
  const role = ROLES.get(value);
  if (role === undefined) {
    if (typeof value !== 'string') throw wrongType(path, 'a string', value);
    if (value === 'function') throw unsupported(path, 'does not support `function`; use `tool`');
    throw wrongValue(path, 'one of system, developer, user, assistant, tool');
  }
  return role;
}

/** The assistant can call tools instead of writing text, and tools can return nothing. */
function parseContent(message: RequestBody, role: Role, path: string): Content {
  const value = message.raw(fields.messageContent);
  if (value === null && (role === 'system' || role === 'user')) throw missing(path);
  return readContent(value ?? '', path, message.notes, PARTS_OF[role], new Content(''));
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
  const url = readImageUrl(image.required('url'), image.at('url'));
  content.addImage(url, readImageDetail(image.get('detail'), image.at('detail')));
}

function mediaOf({ type }: Element): string | undefined {
  return MEDIA.find(([name]) => type.includes(name))?.[1];
}

function partRefused(part: Element): ServiceError {
  const media = mediaOf(part);
  const reason = media === undefined ? '' : `; ${media} are not supported`;
  return unsupported(part.at('type'), `must be \`text\` or \`image_url\`${reason}`);
}

function parseReasoning(message: RequestBody, path: string): string {
  const content = textOf(message, fields.messageReasoningContent, path);
  const alias = textOf(message, fields.messageReasoning, path);
  return content || alias;
}

function textOf(message: RequestBody, field: Field, path: string): string {
  return asString(message.raw(field) ?? '', `${path}.${field.name}`);
}

function parseToolCalls(value: unknown, path: string, budget: JsonBudget, notes: Notes): ToolCall[] {
  if (value === null) return [];
  if (!Array.isArray(value)) throw wrongType(path, 'an array', value);
  if (value.length > MAX_TOOL_CALLS) throw wrongValue(path, `at most ${MAX_TOOL_CALLS} calls`);
  const ids = new Set<string>();
  return value.map((element, index) => {
    const call = parseToolCall(element, `${path}[${index}]`, budget, notes);
    if (ids.has(call.id)) throw wrongValue(`${path}[${index}].id`, 'unique in the message');
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

function parseToolCall(value: unknown, path: string, budget: JsonBudget, notes: Notes): ToolCall {
  const object = asObject(value, path);
  const called = functionOf(object, path, notes, CALL_FIELDS);
  noteUnknown(called, CALLED_FIELDS, notes, `${path}.function.`);
  return {
    id: parseCallId(object['id'] ?? null, `${path}.id`),
    name: parseCalledName(called['name'] ?? null, `${path}.function.name`),
    arguments: parseArguments(called['arguments'] ?? null, `${path}.function.arguments`, budget),
  };
}

export function parseCallId(value: unknown, path: string): string {
  if (value === null) throw missing(path);
  return fields.messageToolCallId.read(value, path) ?? '';
}

/** A model can call a function by a name that functions cannot have, such as `fs.read`. */
export function parseCalledName(value: unknown, path: string): string {
  if (value === null) throw missing(path);
  if (typeof value !== 'string') throw wrongType(path, 'a string', value);
  const name = value.toWellFormed();
  if (name === '' || isLongerThan(name, fields.MAX_CALL_ID))
    throw wrongValue(path, `1 to ${fields.MAX_CALL_ID} characters long`);
  return name;
}

/**
 * Returns the JSON text of an object. Any other text becomes a member of an object: responses can contain it, for
 * example because a model's arguments were cut off, and servers and templates need an object. The budget bounds the
 * values of all calls of the request; text beyond it is not parsed.
 */
export function parseArguments(value: unknown, path: string, budget: JsonBudget): string {
  if (value === null) throw missing(path);
  if (typeof value !== 'string') throw wrongType(path, 'a string', value);
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
