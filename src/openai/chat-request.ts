import type { ChatRequest, Message, Role } from '../generation.ts';
import * as fields from './fields.ts';
import { clampTokens, parseGenerationFields } from './generation-fields.ts';
import { RequestBody, type ParsedRequest, type ParseOptions } from './request-body.ts';
import { asObject, asString, missing, refuseUnknown, unsupported, wrongType, wrongValue } from './values.ts';

/**
 * Parses the body of `POST /v1/chat/completions`. Throws `missing_required_parameter`, `invalid_type`,
 * `invalid_value` or `unsupported_parameter`, with the path of the field.
 */
export function parseChatRequest(
  object: Readonly<Record<string, unknown>>,
  options: ParseOptions,
): ParsedRequest<ChatRequest> {
  const body = new RequestBody(object, 'chat', options.internal);
  const shared = parseGenerationFields(body, 'chat', options);
  const maxTokens = body.read(fields.maxTokens);
  const request: ChatRequest = {
    kind: 'chat',
    ...shared,
    messages: parseMessages(body.raw(fields.messages)),
    maxTokens: clampTokens(body.read(fields.maxCompletionTokens) ?? maxTokens),
    logprobs: parseLogprobs(body),
    tools: [],
    toolChoice: { type: 'auto' },
    parallelToolCalls: true,
    reasoningEffort: null,
    templateVariables: {},
  };
  return { request, used: body.used };
}

function parseLogprobs(body: RequestBody): number | null {
  const enabled = body.read(fields.chatLogprobs);
  const alternatives = body.read(fields.topLogprobs) ?? 0;
  if (!enabled && alternatives > 0) throw wrongValue('top_logprobs', 'absent or 0 unless `logprobs` is true');
  return enabled ? alternatives : null;
}

function parseMessages(value: unknown): Message[] {
  if (!Array.isArray(value)) throw wrongType('messages', 'an array', value);
  if (value.length === 0) throw wrongValue('messages', 'an array with at least 1 message');
  return value.map((element, index) => parseMessage(element, `messages[${index}]`));
}

function parseMessage(value: unknown, path: string): Message {
  const object = asObject(value, path);
  const role = object['role'];
  // Checked first, so that the error names the role and not the fields that only tool messages have.
  if (role === 'tool' || role === 'function')
    throw unsupported(`${path}.role`, `does not support \`${role}\``);
  const message = new RequestBody(object, 'chat', false, 'messages[].', `${path}.`);
  const parsedRole = parseRole(message.raw(fields.messageRole), `${path}.role`);
  const content = parseContent(message.raw(fields.messageContent), `${path}.content`);
  return parsedRole === 'assistant'
    ? { role: parsedRole, content, reasoning: null, toolCalls: [] }
    : { role: parsedRole, content };
}

const ROLES: ReadonlyMap<unknown, Exclude<Role, 'tool'>> = new Map([
  ['system', 'system'],
  ['developer', 'system'],
  ['user', 'user'],
  ['assistant', 'assistant'],
]);

function parseRole(value: unknown, path: string): Exclude<Role, 'tool'> {
  const role = ROLES.get(value);
  if (role === undefined) {
    if (typeof value !== 'string') throw wrongType(path, 'a string', value);
    throw wrongValue(path, 'one of system, developer, user, assistant');
  }
  return role;
}

function parseContent(value: unknown, path: string): string {
  if (!Array.isArray(value)) {
    if (typeof value !== 'string') throw wrongType(path, 'a string or an array of text parts', value);
    return asString(value, path);
  }
  if (value.length === 0) throw wrongValue(path, 'a string or an array with at least 1 part');
  return value.map((part, index) => parsePart(part, `${path}[${index}]`)).join('');
}

const PART_FIELDS = new Set(['type', 'text']);

function parsePart(value: unknown, path: string): string {
  const part = asObject(value, path);
  const type = part['type'] ?? null;
  if (type === null) throw missing(`${path}.type`);
  if (typeof type !== 'string') throw wrongType(`${path}.type`, 'a string', type);
  if (type !== 'text') throw unsupported(`${path}.type`, 'must be `text`');
  refuseUnknown(part, PART_FIELDS, `${path}.`);
  const text = part['text'] ?? null;
  if (text === null) throw missing(`${path}.text`);
  return asString(text, `${path}.text`);
}
