import { ServiceError } from '../../core/errors.ts';
import type { Message } from '../../core/generation.ts';
import type { Notes } from '../../core/notes.ts';
import { Content, readImageDetail, readImageUrl, textOnly } from '../images.ts';
import { JsonBudget } from '../../json/json-body.ts';
import { idList, parseArguments, parseCalledName, parseCallId } from '../openai/messages.ts';
import type { RequestBody } from '../request-body.ts';
import { Turns } from '../turns.ts';
import {
  asList,
  asObject,
  asString,
  displayName,
  jsonObject,
  missing,
  noteUnknown,
  unsupported,
  wrongType,
  wrongValue,
  type JsonObject,
} from '../../json/values.ts';
import type { Sealer } from '../../core/protocol.ts';
import * as fields from './fields.ts';
import { customArguments, modelName } from './tools.ts';

/** Parses `instructions` and `input`. Throws a 400 with the path of the field. */
export function parseInput(body: RequestBody, sealer: Sealer): Message[] {
  const conversation = new ChatHistory(body.notes, sealer);
  const instructions = body.raw(fields.instructions);
  // OpenAI's API repeats the instructions of a response as items, and accepts them so.
  if (Array.isArray(instructions)) conversation.addAll(instructions, 'instructions');
  else if (instructions !== null)
    conversation.addSystem(asString(instructions, 'instructions'), 'instructions');
  const input = body.raw(fields.input);
  if (typeof input === 'string') conversation.addUser(asString(input, 'input'));
  else if (Array.isArray(input)) conversation.addAll(input, 'input');
  else throw wrongType('input', 'a string or an array of items', input);
  const messages = conversation.messages();
  if (messages.length === 0) throw wrongValue('input', 'a string or an array with at least 1 item');
  return messages;
}

const MESSAGE_FIELDS = new Set(['type', 'id', 'role', 'content', 'status', 'phase']);
const REASONING_FIELDS = new Set(['type', 'id', 'summary', 'content', 'encrypted_content', 'status']);
const CALL_FIELDS = new Set(['type', 'id', 'call_id', 'name', 'namespace', 'arguments', 'status']);
const CUSTOM_CALL_FIELDS = new Set(['type', 'id', 'call_id', 'name', 'namespace', 'input', 'status']);
const OUTPUT_FIELDS = new Set(['type', 'id', 'call_id', 'output', 'status', 'name']);
const PART_FIELDS = new Set(['type', 'text', 'annotations', 'logprobs', 'refusal', 'cache_control']);
const IMAGE_FIELDS = new Set(['type', 'image_url', 'file_id', 'detail', 'cache_control']);

/** Clients refer to items because they take the service for one that stores them. */
const NOT_STORED =
  'refers to an item, and items are not stored. Send the items themselves: clients do so with the option `store: false`, which is `providerOptions: { openai: { store: false } }` in the AI SDK';

/** Joins items to messages. */
class ChatHistory {
  readonly #notes: Notes;
  readonly #sealer: Sealer;
  readonly #budget = new JsonBudget();
  /** System messages before all others. Most templates accept only one. */
  readonly #system: string[] = [];
  readonly #turns = new Turns();

  constructor(notes: Notes, sealer: Sealer) {
    this.#notes = notes;
    this.#sealer = sealer;
  }

  addAll(items: readonly unknown[], path: string): void {
    items.forEach((item, index) => this.#add(asObject(item, `${path}[${index}]`), `${path}[${index}]`));
  }

  addUser(text: string): void {
    this.#turns.addUser({ text, images: [] });
  }

  /** Templates accept system messages only at the start. Later ones become messages of the user. */
  addSystem(content: string, path: string): void {
    if (content === '') return;
    if (this.#turns.isEmpty) this.#system.push(content);
    else {
      this.#notes.add(path, 'sent as a user message (not at the start)');
      this.addUser(content);
    }
  }

  messages(): Message[] {
    const { pending } = this.#turns;
    if (pending.length > 0) {
      const ids = idList(pending);
      throw new ServiceError('invalid_value', `No tool output found for function call ${ids}.`, {
        param: 'input',
      });
    }
    const system: Message[] =
      this.#system.length === 0 ? [] : [{ role: 'system', content: this.#system.join('\n\n') }];
    return [...system, ...this.#turns.messages()];
  }

  #add(item: JsonObject, path: string): void {
    const type = item['type'] ?? ('role' in item ? 'message' : null);
    if (type === null) throw missing(`${path}.type`);
    if (typeof type !== 'string') throw wrongType(`${path}.type`, 'a string', type);
    switch (type) {
      case 'message':
        this.#addMessage(item, path);
        break;
      case 'reasoning':
        this.#addReasoning(item, path);
        break;
      case 'function_call': {
        noteUnknown(item, CALL_FIELDS, this.#notes, `${path}.`);
        this.#addCall(
          item,
          path,
          parseArguments(item['arguments'] ?? null, `${path}.arguments`, this.#budget),
        );
        break;
      }
      case 'custom_tool_call': {
        noteUnknown(item, CUSTOM_CALL_FIELDS, this.#notes, `${path}.`);
        const input = item['input'] ?? null;
        if (input === null) throw missing(`${path}.input`);
        this.#addCall(item, path, customArguments(asString(input, `${path}.input`)));
        break;
      }
      case 'function_call_output':
      case 'custom_tool_call_output':
        this.#addOutput(item, path);
        break;
      case 'additional_tools':
        break;
      case 'item_reference':
        throw unsupported(path, NOT_STORED);
      default:
        this.#notes.add(path, `ignored (${displayName(type)})`);
    }
  }

  #addMessage(item: JsonObject, path: string): void {
    noteUnknown(item, MESSAGE_FIELDS, this.#notes, `${path}.`);
    const { role = null, content = null } = item;
    if (role === null) throw missing(`${path}.role`);
    if (content === null && role !== 'assistant') throw missing(`${path}.content`);
    const parts = this.#content(content ?? '', `${path}.content`, role === 'user' ? 'user' : null);
    switch (role) {
      case 'user':
        this.#turns.addUser(parts);
        break;
      case 'system':
      case 'developer':
        this.addSystem(textOnly(parts), path);
        break;
      case 'assistant':
        this.#turns.turn().texts.push(textOnly(parts));
        break;
      default:
        if (typeof role !== 'string') throw wrongType(`${path}.role`, 'a string', role);
        throw wrongValue(`${path}.role`, 'one of user, assistant, system, developer');
    }
  }

  #addReasoning(item: JsonObject, path: string): void {
    noteUnknown(item, REASONING_FIELDS, this.#notes, `${path}.`);
    const text = this.#sealed(item, path) || textsOf(item, 'content', path) || textsOf(item, 'summary', path);
    // An item without text must not begin a message.
    if (text !== '') this.#turns.turn().reasoning.push(text);
  }

  #sealed(item: JsonObject, path: string): string {
    const at = `${path}.encrypted_content`;
    const sealed = asString(item['encrypted_content'] ?? '', at);
    const text = sealed === '' ? '' : this.#sealer.open(sealed);
    if (text !== null) return text;
    const message = `\`${at}\` was not created by this service for your account, or it was changed. Send the reasoning item as you received it, or leave it out.`;
    throw new ServiceError('invalid_encrypted_content', message, { param: at });
  }

  #addCall(item: JsonObject, path: string, text: string): void {
    const id = parseCallId(item['call_id'] ?? null, `${path}.call_id`);
    const namespace = item['namespace'] ?? null;
    const name = modelName({
      name: parseCalledName(item['name'] ?? null, `${path}.name`),
      namespace: namespace === null ? null : parseCalledName(namespace, `${path}.namespace`),
    });
    if (!this.#turns.addCall({ id, name, arguments: text }))
      throw wrongValue(`${path}.call_id`, 'unique among the calls without an output');
  }

  #addOutput(item: JsonObject, path: string): void {
    noteUnknown(item, OUTPUT_FIELDS, this.#notes, `${path}.`);
    const id = parseCallId(item['call_id'] ?? null, `${path}.call_id`);
    const content = this.#content(item['output'] ?? '', `${path}.output`, 'result');
    if (!this.#turns.addResult(id, content)) {
      const message = `No tool call found for function call output with call_id ${idList([id])}.`;
      throw new ServiceError('invalid_value', message, { param: `${path}.call_id` });
    }
  }

  #content(value: unknown, path: string, of: 'user' | 'result' | null): Content {
    const content = new Content('');
    if (!Array.isArray(value)) {
      if (typeof value !== 'string') throw wrongType(path, 'a string or an array of parts', value);
      content.addText(asString(value, path));
      return content;
    }
    value.forEach((element, index) => {
      const at = `${path}[${index}]`;
      const part = asObject(element, at);
      const { type = null } = part;
      if (type === null) throw missing(`${at}.type`);
      if (typeof type !== 'string') throw wrongType(`${at}.type`, 'a string', type);
      if (type === 'input_image') this.#addImage(content, part, at);
      else if (of === 'result' && !PARTS.has(type)) content.leaveOut(at, this.#notes);
      else if (of === 'user' && isFile(type)) content.leaveOut(at, this.#notes, partRefused(type, at));
      else content.addText(this.#text(part, type, at));
    });
    return content;
  }

  #addImage(content: Content, part: JsonObject, path: string): void {
    noteUnknown(part, IMAGE_FIELDS, this.#notes, `${path}.`);
    const { image_url: url = null, file_id: file = null, detail = null } = part;
    if (file !== null)
      throw unsupported(`${path}.file_id`, 'refers to a file, and files are not stored; send `image_url`');
    if (url === null) throw missing(`${path}.image_url`);
    content.addImage(readImageUrl(url, `${path}.image_url`), readImageDetail(detail, `${path}.detail`));
  }

  #text(part: JsonObject, type: string, path: string): string {
    const field = PARTS.get(type);
    if (field === undefined) throw partRefused(type, path);
    noteUnknown(part, PART_FIELDS, this.#notes, `${path}.`);
    const text = part[field] ?? null;
    if (text === null) throw missing(`${path}.${field}`);
    return asString(text, `${path}.${field}`);
  }
}

/** The fields with the text of a part, by its type. */
const PARTS: ReadonlyMap<string, string> = new Map([
  ['input_text', 'text'],
  ['output_text', 'text'],
  ['text', 'text'],
  ['refusal', 'refusal'],
]);

const MEDIA = ['image', 'audio', 'file'] as const;

/** Whether a part that is not text is a file, such as a PDF. */
const isFile = (type: string): boolean => !PARTS.has(type) && MEDIA.some((media) => type.includes(media));

function partRefused(type: string, path: string): ServiceError {
  return unsupported(
    path,
    isFile(type)
      ? `is not text; models cannot read a part of the type \`${displayName(type)}\` here`
      : 'must be a part with text or an image',
  );
}

/** Returns the texts of the parts in a field of a reasoning item. */
function textsOf(item: JsonObject, field: string, path: string): string {
  const value = item[field] ?? null;
  if (value !== null && !Array.isArray(value))
    throw wrongType(`${path}.${field}`, 'an array of parts', value);
  const texts = asList(value).map((part, index) => {
    const at = `${path}.${field}[${index}].text`;
    const text = jsonObject(part)['text'] ?? null;
    if (text === null) throw missing(at);
    return asString(text, at);
  });
  return texts.filter((text) => text !== '').join('\n\n');
}
