import { ServiceError } from '../../core/errors.ts';
import type { Message } from '../../core/generation.ts';
import type { Notes } from '../../core/notes.ts';
import { ChatHistory } from '../chat-history.ts';
import type { Element } from '../element.ts';
import { readContent, readElement, reader, type ElementTable, type ElementReader } from '../elements.ts';
import { Content, imageOfOther, readImageData, readImageUrl, textOnly } from '../images.ts';
import { idList, parseCalledName, parseCallId } from '../openai/messages.ts';
import type { RequestBody } from '../request-body.ts';
import {
  asObject,
  checkWellFormed,
  displayName,
  jsonObject,
  unsupported,
  wrongType,
  wrongValue,
} from '../../json/values.ts';
import type { Sealer } from '../../core/protocol.ts';
import * as fields from './fields.ts';
import { modelName } from './tools.ts';

/** What the messages of a request become. */
interface Conversation {
  readonly history: ChatHistory;
  readonly sealer: Sealer;
  /** Names of deferred tools that results refer to. */
  readonly loadedTools: Set<string>;
}

/** Parses `system` and `messages`. `endsAnywhere`: any message may be the last one. Throws a 400 with the path of the field. */
export function parseMessages(
  body: RequestBody,
  sealer: Sealer,
  endsAnywhere: boolean,
): Pick<Conversation, 'loadedTools'> & { messages: Message[] } {
  const { notes } = body;
  const history = new ChatHistory();
  const into: Conversation = { history, sealer, loadedTools: new Set() };
  const system = body.raw(fields.system);
  if (system !== null) addSystem(system, 'system', notes, into);
  const list = body.elements('messages');
  if (list.length === 0) throw wrongValue('messages', 'an array with at least 1 message');
  for (const message of list) addMessage(message, into);
  if (!endsAnywhere) refusePrefill(history, `messages[${list.length - 1}]`);
  return { messages: history.messagesOrEmpty(), loadedTools: into.loadedTools };
}

/** Blocks whose content a model would have to read. The first two are read where text can come from a file. */
export const MEDIA: ReadonlySet<string> = new Set(['document', 'search_result', 'container_upload']);

/** The beginning of a system block of Claude Code. It changes with each request, so no prefix would ever be found again. */
const BILLING = 'x-anthropic-billing-header';

/** The content of a message of the user or the system, of a result, or of a document. */
class BlockContent extends Content {
  readonly into: Conversation;
  hasResults = false;

  constructor(into: Conversation) {
    super('\n\n');
    this.into = into;
  }
}

const MESSAGE_FIELDS = new Set(['role', 'content']);

function addMessage(message: Element, into: Conversation): void {
  message.noteUnknown(MESSAGE_FIELDS);
  const { notes, path } = message;
  const { history } = into;
  const role = message.required('role');
  const content = role === 'assistant' ? (message.get('content') ?? '') : message.required('content');
  const at = message.at('content');
  switch (role) {
    case 'user': {
      // Results come before the text of the message, because they must follow the calls.
      const parts = readContent(content, at, notes, USER_BLOCKS, new BlockContent(into));
      const { text, images } = parts;
      // An agent sends the file that a tool has read beside the result.
      if (!parts.hasResults) history.addUser(parts);
      else if (!parts.isEmpty) history.addUser({ text, images });
      break;
    }
    case 'assistant':
      if (!history.isOpen) refusePending(history);
      history.turn(path);
      readContent(content, at, notes, ASSISTANT_BLOCKS, into);
      break;
    case 'system':
      addSystem(content, at, notes, into);
      break;
    default:
      if (typeof role !== 'string') throw wrongType(message.at('role'), 'a string', role);
      throw wrongValue(message.at('role'), 'one of user, assistant, system');
  }
}

function addSystem(content: unknown, path: string, notes: Notes, into: Conversation): void {
  into.history.addSystem(textOnly(readContent(content, path, notes, SYSTEM_BLOCKS, new BlockContent(into))));
}

function refusePending({ pending, assistantPath }: ChatHistory): void {
  if (pending.length === 0) return;
  throw refused(
    assistantPath,
    `\`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${idList(pending)}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
  );
}

/** Refuses a last message of the assistant. */
function refusePrefill(history: ChatHistory, param: string): void {
  refusePending(history);
  if (history.assistantPath !== param) return;
  const message = `\`${param}\`: This model does not support assistant message prefill. The conversation must end with a user message.`;
  throw new ServiceError('invalid_value', message, { param });
}

/**
 * Defines how blocks are read. Those of the type `text` are added as strings are. Clients send back the blocks of responses
 * of any API, with fields that have no effect.
 */
function blocks<T>(
  addText: ElementTable<T>['addText'],
  readers: readonly (readonly [type: string, reader: ElementReader<T>])[],
): ElementTable<T> {
  const text = reader<T>('text cache_control citations', (block, into) =>
    addText(block.text('text'), into, block.path, block.notes),
  );
  return { noun: 'blocks', addText, readers: new Map([['text', text], ...readers]), other: ignore };
}

function ignore({ type, path, notes }: Element): void {
  if (MEDIA.has(type))
    throw unsupported(path, `is not text; a model cannot read a block of the type \`${type}\` here`);
  notes.add(path, `ignored (${displayName(type)})`);
}

const ASSISTANT_BLOCKS = blocks<Conversation>(
  (text, { history }) => history.turn().texts.push(text),
  [
    ['tool_use', reader('id name input cache_control caller toolset_name', addCall)],
    ['thinking', reader('thinking signature cache_control', addThinking)],
    ['image', refuseImage],
  ],
);

function refuseImage({ path }: Element): never {
  throw imageOfOther(path);
}

function addCall(block: Element, { history }: Conversation): void {
  const id = parseCallId(block, 'id');
  const name = modelName(parseCalledName(block, 'name'));
  const input = asObject(block.required('input'), block.at('input'));
  checkWellFormed(input, block.at('input'));
  if (!history.addCall({ id, name, arguments: JSON.stringify(input) }))
    throw refused(block.at('id'), '`tool_use` ids must be unique.');
}

/** Adds the thinking in the signature. That of others is not trusted, and may be encrypted. */
function addThinking(block: Element, { history, sealer }: Conversation): void {
  block.optionalText('thinking');
  const text = block.get('signature') === null ? null : sealer.open(block.text('signature'));
  if (text === null)
    block.notes.add(block.path, 'ignored (thinking that this service did not sign for your account)');
  else if (text !== '') history.turn().reasoning.push(text);
}

/** The blocks that a model can read in each message and result, and in a document. */
const READABLE = [
  ['image', reader('source cache_control', addImage)],
  ['document', reader('source title context citations cache_control', addDocument)],
  ['search_result', reader('source title content citations cache_control', addSearchResult)],
] as const satisfies readonly (readonly [string, ElementReader<BlockContent>])[];

const DOCUMENT_BLOCKS = blocks<BlockContent>((text, content) => content.addText(text), READABLE);

const USER_BLOCKS = blocks<BlockContent>(
  (text, content) => content.addText(text),
  [
    ...READABLE,
    ['tool_result', reader('tool_use_id content is_error cache_control toolset_name', addResult)],
    documents((block, content) => content.leaveOut(block.path, block.notes, fileRefused(block.at('source')))),
  ],
);

const SYSTEM_BLOCKS = blocks<BlockContent>(addUnlessBilling, [...READABLE, ['tool_reference', addReference]]);

const leaveOut = ({ path, notes }: Element, content: Content): void => content.leaveOut(path, notes);

const RESULT_BLOCKS: ElementTable<BlockContent> = blocks(addUnlessBilling, [
  ...SYSTEM_BLOCKS.readers,
  documents(leaveOut),
  ['container_upload', leaveOut],
]);

/** Reads documents where the model does without those that are files, such as a PDF. */
function documents(leaveOut: ElementReader<BlockContent>) {
  const read: typeof leaveOut = (block, content) => {
    const { type } = jsonObject(block.get('source'));
    if (typeof type === 'string' && type !== 'text' && type !== 'content') leaveOut(block, content);
    else readElement(block, DOCUMENT_BLOCKS, content);
  };
  return ['document', read] as const;
}

function addUnlessBilling(text: string, content: Content, path: string, notes: Notes): void {
  if (text.startsWith(BILLING)) notes.add(path, 'left out (billing header)');
  else content.addText(text);
}

function addReference(block: Element, content: BlockContent): void {
  const tool = parseCalledName(block, 'tool_name');
  content.into.loadedTools.add(tool);
  content.addText(`Loaded the tool ${modelName(tool)}.`);
}

function addResult(block: Element, content: BlockContent): void {
  const id = parseCallId(block, 'tool_use_id');
  const isError = block.boolean('is_error');
  const { into } = content;
  const result = block.get('content') ?? '';
  const parts = readContent(result, block.at('content'), block.notes, RESULT_BLOCKS, new BlockContent(into));
  if (!into.history.addResult(id, isError === true ? asError(parts) : parts)) {
    throw refused(
      block.path,
      `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${idList([id])}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
    );
  }
  content.hasResults = true;
}

const TEXT_SOURCE_FIELDS = new Set(['type', 'media_type', 'data']);
const CONTENT_SOURCE_FIELDS = new Set(['type', 'content']);

/** A document of which a model gets the text, such as a file that Claude Code attaches. */
function addDocument(block: Element, content: BlockContent): void {
  noteCitations(block);
  for (const name of ['title', 'context']) content.addText(block.optionalText(name));
  const source = block.element('source');
  switch (source.type) {
    case 'text':
      source.noteUnknown(TEXT_SOURCE_FIELDS);
      content.addText(source.text('data'));
      break;
    case 'content':
      source.noteUnknown(CONTENT_SOURCE_FIELDS);
      addBlocksOf(source, content);
      break;
    default:
      throw fileRefused(source.path);
  }
}

function addSearchResult(block: Element, content: BlockContent): void {
  noteCitations(block);
  for (const name of ['title', 'source']) content.addText(block.optionalText(name));
  addBlocksOf(block, content);
}

function addBlocksOf(element: Element, content: BlockContent): void {
  readContent(element.required('content'), element.at('content'), element.notes, DOCUMENT_BLOCKS, content);
}

function noteCitations(block: Element): void {
  if (jsonObject(block.get('citations'))['enabled'] === true)
    block.notes.add(block.at('citations'), 'ignored');
}

const SOURCE_FIELDS = new Set(['type', 'media_type', 'data', 'url', 'file_id']);

function addImage(block: Element, content: Content): void {
  const source = block.element('source');
  source.noteUnknown(SOURCE_FIELDS);
  content.addImage(readImage(source), null);
}

function readImage(source: Element): ReturnType<typeof readImageUrl> {
  switch (source.type) {
    case 'base64':
      source.text('media_type');
      return readImageData(source, 'data');
    case 'url':
      return readImageUrl(source, 'url');
    case 'file':
      throw unsupported(source.at('type'), 'refers to a file, and files are not stored; use `base64`');
    default:
      throw wrongValue(source.at('type'), 'one of base64, url');
  }
}

/** The error for a document whose source is at `path`. */
function fileRefused(path: string): ServiceError {
  return unsupported(
    `${path}.type`,
    'must be `text` or `content`, because models read only the text of documents',
  );
}

/** Returns the content of a result that is an error. Models know no other sign of one. */
function asError({ text, images }: Content): Pick<Content, 'text' | 'images'> {
  const start = 'Error: ';
  return { text: start + text, images: images.map((image) => ({ ...image, at: image.at + start.length })) };
}

/** The error for blocks that do not fit together, in the words of Anthropic's API, which agents match. */
function refused(param: string, why: string): ServiceError {
  return new ServiceError('invalid_value', `${param.replaceAll(/\[(\d+)\]/g, '.$1')}: ${why}`, { param });
}
