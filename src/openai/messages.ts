import type { Message, Role } from '../generation.ts';
import { RequestBody } from './request-body.ts';
import { messageContent, messageRole } from './fields.ts';
import { asObject, asString, missing, refuseUnknown, unsupported, wrongType, wrongValue } from './values.ts';

/** Reads `messages`. Roles become ours, parts become one string. Throws the 400s, by path. */
export function parseMessages(value: unknown): Message[] {
  if (!Array.isArray(value)) throw wrongType('messages', 'an array', value);
  if (value.length === 0) throw wrongValue('messages', 'an array with at least 1 message');
  return value.map((element, index) => parseMessage(element, `messages[${index}]`));
}

function parseMessage(value: unknown, path: string): Message {
  const object = asObject(value, path);
  const role = object['role'];
  // Before the fields are looked at: a tool's message has fields of its own, and its role says more than they do.
  if (role === 'tool' || role === 'function')
    throw unsupported(`${path}.role`, `does not support \`${role}\``);
  const message = new RequestBody(object, 'chat', false, 'messages[].', `${path}.`);
  return {
    role: parseRole(message.raw(messageRole), `${path}.role`),
    content: parseContent(message.raw(messageContent), `${path}.content`),
  };
}

const ROLES: ReadonlyMap<unknown, Role> = new Map([
  ['system', 'system'],
  ['developer', 'system'],
  ['user', 'user'],
  ['assistant', 'assistant'],
]);

function parseRole(value: unknown, path: string): Role {
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
