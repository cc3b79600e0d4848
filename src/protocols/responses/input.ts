import { ServiceError } from '../../core/errors.ts';
import type { Message } from '../../core/generation.ts';
import type { Notes } from '../../core/notes.ts';
import { ChatHistory } from '../chat-history.ts';
import type { Element } from '../element.ts';
import { partTables, readContent, reader, type ElementReader, type ElementTable } from '../elements.ts';
import { Content, readImageDetail, readImageUrl, textOnly } from '../images.ts';
import { JsonBudget } from '../../json/json-body.ts';
import { idList, parseArguments, parseCalledName, parseCallId } from '../openai/messages.ts';
import type { RequestBody } from '../request-body.ts';
import {
  asList,
  asString,
  displayName,
  jsonObject,
  missing,
  unsupported,
  wrongType,
  wrongValue,
} from '../../json/values.ts';
import type { Sealer } from '../../core/protocol.ts';
import * as fields from './fields.ts';
import { customArguments, modelName } from './tools.ts';

/** What the items of a request become. */
interface Conversation {
  readonly history: ChatHistory;
  /** System messages before all others. Most templates accept only one. */
  readonly system: string[];
  readonly budget: JsonBudget;
  readonly sealer: Sealer;
}

/** Parses `instructions` and `input`. Throws a 400 with the path of the field. */
export function parseInput(body: RequestBody, sealer: Sealer): Message[] {
  const { notes } = body;
  const history = new ChatHistory();
  const system: string[] = [];
  const into: Conversation = { history, system, budget: new JsonBudget(), sealer };
  const instructions = body.raw(fields.instructions);
  // OpenAI's API repeats the instructions of a response as items, and accepts them so.
  if (Array.isArray(instructions)) readContent(instructions, 'instructions', notes, ITEMS, into);
  else if (instructions !== null)
    addSystem(asString(instructions, 'instructions'), 'instructions', notes, into);
  readContent(body.raw(fields.input), 'input', notes, ITEMS, into);
  const { pending } = history;
  if (pending.length > 0) {
    const message = `No tool output found for function call ${idList(pending)}.`;
    throw new ServiceError('invalid_value', message, { param: 'input' });
  }
  const messages = history.messages();
  if (system.length > 0) messages.unshift({ role: 'system', content: system.join('\n\n') });
  if (messages.length === 0) throw wrongValue('input', 'a string or an array with at least 1 item');
  return messages;
}

/** Templates accept system messages only at the start. Later ones become messages of the user. */
function addSystem(text: string, path: string, notes: Notes, { history, system }: Conversation): void {
  if (text === '') return;
  if (history.isEmpty) system.push(text);
  else {
    notes.add(path, 'sent as a user message (not at the start)');
    history.addUser({ text, images: [] });
  }
}

/** Clients refer to items because they take the service for one that stores them. */
function refuseReference({ path }: Element): never {
  const why =
    'refers to an item, and items are not stored. Send the items themselves: clients do so with the option `store: false`, which is `providerOptions: { openai: { store: false } }` in the AI SDK';
  throw unsupported(path, why);
}

const OUTPUT = reader('id call_id output status name', addOutput);

const ITEMS: ElementTable<Conversation> = {
  noun: 'items',
  readers: new Map([
    ['message', reader('id role content status phase', addMessage)],
    ['reasoning', reader('id summary content encrypted_content status', addReasoning)],
    ['function_call', reader('id call_id name namespace arguments status', addFunctionCall)],
    ['custom_tool_call', reader('id call_id name namespace input status', addCustomCall)],
    ['function_call_output', OUTPUT],
    ['custom_tool_call_output', OUTPUT],
    ['additional_tools', () => {}],
    ['item_reference', refuseReference],
  ]),
  other: ({ type, path, notes }) => notes.add(path, `ignored (${displayName(type)})`),
  addText: (text, { history }) => history.addUser({ text, images: [] }),
  typeOf: (item) => (item.get('type') === null && item.has('role') ? 'message' : item.type),
};

function addMessage(item: Element, into: Conversation): void {
  const role = item.required('role');
  const content = role === 'assistant' ? (item.get('content') ?? '') : item.required('content');
  const table = role === 'user' ? PARTS.user : PARTS.other;
  const parts = readContent(content, item.at('content'), item.notes, table, new Content(''));
  switch (role) {
    case 'user':
      into.history.addUser(parts);
      break;
    case 'system':
    case 'developer':
      addSystem(textOnly(parts), item.path, item.notes, into);
      break;
    case 'assistant':
      into.history.turn().texts.push(textOnly(parts));
      break;
    default:
      if (typeof role !== 'string') throw wrongType(item.at('role'), 'a string', role);
      throw wrongValue(item.at('role'), 'one of user, assistant, system, developer');
  }
}

function addReasoning(item: Element, { history, sealer }: Conversation): void {
  const text = unsealed(item, sealer) || textsOf(item, 'content') || textsOf(item, 'summary');
  // An item without text must not begin a message.
  if (text !== '') history.turn().reasoning.push(text);
}

function unsealed(item: Element, sealer: Sealer): string {
  const sealed = item.optionalText('encrypted_content');
  const text = sealed === '' ? '' : sealer.open(sealed);
  if (text !== null) return text;
  const param = item.at('encrypted_content');
  const message = `\`${param}\` was not created by this service for your account, or it was changed. Send the reasoning item as you received it, or leave it out.`;
  throw new ServiceError('invalid_encrypted_content', message, { param });
}

function addFunctionCall(item: Element, into: Conversation): void {
  addCall(item, parseArguments(item, into.budget), into);
}

function addCustomCall(item: Element, into: Conversation): void {
  addCall(item, customArguments(item.text('input')), into);
}

function addCall(item: Element, text: string, { history }: Conversation): void {
  const id = parseCallId(item, 'call_id');
  const name = modelName({
    name: parseCalledName(item, 'name'),
    namespace: item.get('namespace') === null ? null : parseCalledName(item, 'namespace'),
  });
  if (!history.addCall({ id, name, arguments: text }))
    throw wrongValue(item.at('call_id'), 'unique among the calls without an output');
}

function addOutput(item: Element, { history }: Conversation): void {
  const id = parseCallId(item, 'call_id');
  const output = item.get('output') ?? '';
  const content = readContent(output, item.at('output'), item.notes, PARTS.result, new Content(''));
  if (!history.addResult(id, content)) {
    const message = `No tool call found for function call output with call_id ${idList([id])}.`;
    throw new ServiceError('invalid_value', message, { param: item.at('call_id') });
  }
}

/** Reads parts that have their text in this field. */
const textIn = (field: string): ElementReader<Content> =>
  reader('text annotations logprobs refusal cache_control', (part, content) =>
    content.addText(part.text(field)),
  );

const PARTS = partTables(
  new Map([
    ['input_text', textIn('text')],
    ['output_text', textIn('text')],
    ['text', textIn('text')],
    ['refusal', textIn('refusal')],
    ['input_image', reader('image_url file_id detail cache_control', addImage)],
  ]),
  isFile,
  partRefused,
);

function addImage(part: Element, content: Content): void {
  if (part.get('file_id') !== null)
    throw unsupported(part.at('file_id'), 'refers to a file, and files are not stored; send `image_url`');
  content.addImage(readImageUrl(part, 'image_url'), readImageDetail(part));
}

/** Whether a part of an unknown type is a file, such as a PDF. */
function isFile({ type }: Element): boolean {
  return /image|audio|file/.test(type);
}

function partRefused(part: Element): ServiceError {
  return unsupported(
    part.path,
    isFile(part)
      ? `is not text; models cannot read a part of the type \`${displayName(part.type)}\` here`
      : 'must be a part with text or an image',
  );
}

/** Returns the texts of the parts in a field of a reasoning item. */
function textsOf(item: Element, field: string): string {
  const value = item.get(field);
  if (value !== null && !Array.isArray(value)) throw wrongType(item.at(field), 'an array of parts', value);
  const texts = asList(value).map((part, index) => {
    const at = `${item.at(field)}[${index}].text`;
    const text = jsonObject(part)['text'] ?? null;
    if (text === null) throw missing(at);
    return asString(text, at);
  });
  return texts.filter((text) => text !== '').join('\n\n');
}
