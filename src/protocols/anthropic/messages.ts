import { ServiceError } from '../../core/errors.ts';
import type { Message } from '../../core/generation.ts';
import type { Notes } from '../../core/notes.ts';
import { Content, imageOfOther, readImageData, readImageUrl, textOnly } from '../images.ts';
import { idList, parseCalledName, parseCallId } from '../openai/messages.ts';
import type { RequestBody } from '../request-body.ts';
import { Turns } from '../turns.ts';
import {
  asObject,
  asString,
  checkWellFormed,
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
import { modelName } from './tools.ts';

export interface ParsedMessages {
  messages: readonly Message[];
  /** Names of deferred tools that results refer to. */
  loadedTools: ReadonlySet<string>;
}

/** Parses `system` and `messages`. `endsAnywhere`: any message may be the last one. Throws a 400 with the path of the field. */
export function parseMessages(body: RequestBody, sealer: Sealer, endsAnywhere: boolean): ParsedMessages {
  const conversation = new ChatHistory(body.notes, sealer);
  const system = body.raw(fields.system);
  if (system !== null) conversation.addSystem(system, 'system');
  const list = body.raw(fields.messages);
  if (!Array.isArray(list)) throw wrongType('messages', 'an array', list);
  if (list.length === 0) throw wrongValue('messages', 'an array with at least 1 message');
  list.forEach((message, index) => conversation.add(asObject(message, `messages[${index}]`), index));
  if (!endsAnywhere) conversation.refusePrefill(list.length - 1);
  return conversation.end();
}

const MESSAGE_FIELDS = new Set(['role', 'content']);
/** Clients send back the blocks of responses of any API, with fields that have no effect. */
const TEXT_FIELDS = new Set(['type', 'text', 'cache_control', 'citations']);
const CALL_FIELDS = new Set(['type', 'id', 'name', 'input', 'cache_control', 'caller', 'toolset_name']);
const RESULT_FIELDS = new Set([
  'type',
  'tool_use_id',
  'content',
  'is_error',
  'cache_control',
  'toolset_name',
]);
const IMAGE_FIELDS = new Set(['type', 'source', 'cache_control']);
const SOURCE_FIELDS = new Set(['type', 'media_type', 'data', 'url', 'file_id']);
const DOCUMENT_FIELDS = new Set(['type', 'source', 'title', 'context', 'citations', 'cache_control']);
const TEXT_SOURCE_FIELDS = new Set(['type', 'media_type', 'data']);
const CONTENT_SOURCE_FIELDS = new Set(['type', 'content']);
const SEARCH_RESULT_FIELDS = new Set(['type', 'source', 'title', 'content', 'citations', 'cache_control']);
const THINKING_FIELDS = new Set(['type', 'thinking', 'signature', 'cache_control']);

/** Between the texts of blocks. */
const SEPARATOR = '\n\n';

/** Blocks whose content a model would have to read. The first two are read where text can come from a file. */
export const MEDIA: ReadonlySet<string> = new Set(['document', 'search_result', 'container_upload']);

/** The beginning of a system block of Claude Code. It changes with each request, so no prefix would ever be found again. */
const BILLING = 'x-anthropic-billing-header';

class ChatHistory {
  readonly #notes: Notes;
  readonly #sealer: Sealer;
  readonly #turns = new Turns();
  readonly #loadedTools = new Set<string>();
  /** The index of the last message of the assistant; -1: none. */
  #assistant = -1;

  constructor(notes: Notes, sealer: Sealer) {
    this.#notes = notes;
    this.#sealer = sealer;
  }

  addSystem(content: unknown, path: string): void {
    this.#turns.addSystem(textOnly(this.#content(content, path)));
  }

  add(message: JsonObject, index: number): void {
    const path = `messages[${index}]`;
    noteUnknown(message, MESSAGE_FIELDS, this.#notes, `${path}.`);
    const { role = null, content = null } = message;
    if (role === null) throw missing(`${path}.role`);
    if (content === null && role !== 'assistant') throw missing(`${path}.content`);
    const at = `${path}.content`;
    switch (role) {
      case 'user':
        this.#addUser(content, at);
        break;
      case 'assistant':
        if (!this.#turns.isOpen) this.#refusePending();
        this.#addAssistant(content ?? '', at);
        this.#assistant = index;
        break;
      case 'system':
        this.addSystem(content, at);
        break;
      default:
        if (typeof role !== 'string') throw wrongType(`${path}.role`, 'a string', role);
        throw wrongValue(`${path}.role`, 'one of user, assistant, system');
    }
  }

  /** Refuses a last message of the assistant. */
  refusePrefill(last: number): void {
    this.#refusePending();
    if (this.#assistant !== last) return;
    const param = `messages[${last}]`;
    const message = `\`${param}\`: This model does not support assistant message prefill. The conversation must end with a user message.`;
    throw new ServiceError('invalid_value', message, { param });
  }

  end(): ParsedMessages {
    return { messages: this.#turns.messagesOrEmpty(), loadedTools: this.#loadedTools };
  }

  /** Adds the results of a message before its text, because they must follow the calls. */
  #addUser(content: unknown, path: string): void {
    const parts = new Content(SEPARATOR);
    let results = 0;
    for (const { block, type, at } of this.#blocks(content, path)) {
      if (type === 'tool_result') {
        this.#addResult(block, at);
        results++;
      } else if (type === 'document' && isFile(block, type)) {
        parts.leaveOut(at, this.#notes, fileRefused(`${at}.source.type`));
      } else this.#addTo(parts, block, type, at);
    }
    const { text, images } = parts;
    // An agent sends the file that a tool has read beside the result.
    if (results === 0) this.#turns.addUser(parts);
    else if (!parts.isEmpty) this.#turns.addUser({ text, images });
  }

  #addAssistant(content: unknown, path: string): void {
    const turn = this.#turns.turn();
    for (const { block, type, at } of this.#blocks(content, path)) {
      if (type === 'text') turn.texts.push(this.#textOf(block, at));
      else if (type === 'tool_use') this.#addCall(block, at);
      else if (type === 'thinking') {
        const thought = this.#thought(block, at);
        if (thought !== '') turn.reasoning.push(thought);
      } else if (type === 'image') throw imageOfOther(at);
      else this.#ignore(type, at);
    }
  }

  /** Returns the thinking in the signature. That of others is not trusted, and may be encrypted. */
  #thought(block: JsonObject, path: string): string {
    noteUnknown(block, THINKING_FIELDS, this.#notes, `${path}.`);
    const { thinking = null, signature = null } = block;
    if (thinking !== null) asString(thinking, `${path}.thinking`);
    const text = signature === null ? null : this.#sealer.open(asString(signature, `${path}.signature`));
    if (text === null)
      this.#notes.add(path, 'ignored (thinking that this service did not sign for your account)');
    return text ?? '';
  }

  #addCall(block: JsonObject, path: string): void {
    noteUnknown(block, CALL_FIELDS, this.#notes, `${path}.`);
    const id = parseCallId(block['id'] ?? null, `${path}.id`);
    const name = modelName(parseCalledName(block['name'] ?? null, `${path}.name`));
    const { input = null } = block;
    if (input === null) throw missing(`${path}.input`);
    const value = asObject(input, `${path}.input`);
    checkWellFormed(value, `${path}.input`);
    if (!this.#turns.addCall({ id, name, arguments: JSON.stringify(value) })) {
      throw refused(`${path}.id`, '`tool_use` ids must be unique.');
    }
  }

  #addResult(block: JsonObject, path: string): void {
    noteUnknown(block, RESULT_FIELDS, this.#notes, `${path}.`);
    const id = parseCallId(block['tool_use_id'] ?? null, `${path}.tool_use_id`);
    const { content = null, is_error: isError = false } = block;
    if (isError !== null && typeof isError !== 'boolean')
      throw wrongType(`${path}.is_error`, 'a boolean', isError);
    const parts = this.#content(content ?? '', `${path}.content`, true);
    if (!this.#turns.addResult(id, isError === true ? asError(parts) : parts)) {
      throw refused(
        path,
        `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${idList([id])}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
      );
    }
  }

  #refusePending(): void {
    const { pending } = this.#turns;
    if (pending.length === 0) return;
    throw refused(
      `messages[${this.#assistant}]`,
      `\`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${idList(pending)}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
    );
  }

  /** Returns the content of a system message or a result. */
  #content(content: unknown, path: string, isResult = false): Content {
    const parts = new Content(SEPARATOR);
    for (const { block, type, at } of this.#blocks(content, path)) {
      if (type === 'tool_reference') parts.addText(this.#reference(block, at));
      else if (type === 'text' && this.#textOf(block, at).startsWith(BILLING))
        this.#notes.add(at, 'left out (billing header)');
      else if (isResult && isFile(block, type)) parts.leaveOut(at, this.#notes);
      else this.#addTo(parts, block, type, at);
    }
    return parts;
  }

  /** Adds a block of a user or system message, of a result or of a document. */
  #addTo(parts: Content, block: JsonObject, type: string, path: string): void {
    switch (type) {
      case 'text':
        parts.addText(this.#textOf(block, path));
        break;
      case 'image':
        parts.addImage(this.#image(block, path), null);
        break;
      case 'document':
        this.#addDocument(parts, block, path);
        break;
      case 'search_result':
        this.#addSearchResult(parts, block, path);
        break;
      default:
        this.#ignore(type, path);
    }
  }

  /** A document of which a model gets the text, such as a file that Claude Code attaches. */
  #addDocument(parts: Content, block: JsonObject, path: string): void {
    noteUnknown(block, DOCUMENT_FIELDS, this.#notes, `${path}.`);
    this.#noteCitations(block, path);
    for (const name of ['title', 'context']) parts.addText(asString(block[name] ?? '', `${path}.${name}`));
    const at = `${path}.source`;
    const { source: given = null } = block;
    if (given === null) throw missing(at);
    const source = asObject(given, at);
    const { type = null, data = null, content = null } = source;
    switch (type) {
      case 'text':
        noteUnknown(source, TEXT_SOURCE_FIELDS, this.#notes, `${at}.`);
        if (data === null) throw missing(`${at}.data`);
        parts.addText(asString(data, `${at}.data`));
        break;
      case 'content':
        noteUnknown(source, CONTENT_SOURCE_FIELDS, this.#notes, `${at}.`);
        if (content === null) throw missing(`${at}.content`);
        for (const each of this.#blocks(content, `${at}.content`))
          this.#addTo(parts, each.block, each.type, each.at);
        break;
      default:
        if (type === null) throw missing(`${at}.type`);
        if (typeof type !== 'string') throw wrongType(`${at}.type`, 'a string', type);
        throw fileRefused(`${at}.type`);
    }
  }

  #addSearchResult(parts: Content, block: JsonObject, path: string): void {
    noteUnknown(block, SEARCH_RESULT_FIELDS, this.#notes, `${path}.`);
    this.#noteCitations(block, path);
    for (const name of ['title', 'source']) parts.addText(asString(block[name] ?? '', `${path}.${name}`));
    const { content = null } = block;
    if (content === null) throw missing(`${path}.content`);
    for (const each of this.#blocks(content, `${path}.content`))
      this.#addTo(parts, each.block, each.type, each.at);
  }

  #noteCitations({ citations = null }: JsonObject, path: string): void {
    if (jsonObject(citations)['enabled'] === true) this.#notes.add(`${path}.citations`, 'ignored');
  }

  #image(block: JsonObject, path: string): ReturnType<typeof readImageUrl> {
    noteUnknown(block, IMAGE_FIELDS, this.#notes, `${path}.`);
    const at = `${path}.source`;
    const { source: given = null } = block;
    if (given === null) throw missing(at);
    const source = asObject(given, at);
    noteUnknown(source, SOURCE_FIELDS, this.#notes, `${at}.`);
    const field = (name: string): { value: unknown; path: string } => {
      const value = source[name] ?? null;
      if (value === null) throw missing(`${at}.${name}`);
      return { value, path: `${at}.${name}` };
    };
    const { value: type } = field('type');
    switch (type) {
      case 'base64': {
        const [type, data] = [field('media_type'), field('data')];
        asString(type.value, type.path);
        return readImageData(data.value, data.path);
      }
      case 'url': {
        const url = field('url');
        return readImageUrl(url.value, url.path);
      }
      case 'file':
        throw unsupported(`${at}.type`, 'refers to a file, and files are not stored; use `base64`');
      default:
        if (typeof type !== 'string') throw wrongType(`${at}.type`, 'a string', type);
        throw wrongValue(`${at}.type`, 'one of base64, url');
    }
  }

  #reference({ tool_name: name = null }: JsonObject, path: string): string {
    const tool = parseCalledName(name, `${path}.tool_name`);
    this.#loadedTools.add(tool);
    return `Loaded the tool ${modelName(tool)}.`;
  }

  #textOf(block: JsonObject, path: string): string {
    noteUnknown(block, TEXT_FIELDS, this.#notes, `${path}.`);
    const { text = null } = block;
    if (text === null) throw missing(`${path}.text`);
    return asString(text, `${path}.text`);
  }

  #ignore(type: string, path: string): void {
    if (MEDIA.has(type))
      throw unsupported(path, `is not text; a model cannot read a block of the type \`${type}\` here`);
    this.#notes.add(path, `ignored (${displayName(type)})`);
  }

  /** Yields the blocks of a content. A string is a text block. */
  *#blocks(content: unknown, path: string): Iterable<{ block: JsonObject; type: string; at: string }> {
    if (typeof content === 'string') {
      asString(content, path);
      yield { block: { text: content }, type: 'text', at: path };
      return;
    }
    if (!Array.isArray(content)) throw wrongType(path, 'a string or an array of blocks', content);
    for (const [index, element] of content.entries()) {
      const at = `${path}[${index}]`;
      const block = asObject(element, at);
      const { type = null } = block;
      if (type === null) throw missing(`${at}.type`);
      if (typeof type !== 'string') throw wrongType(`${at}.type`, 'a string', type);
      yield { block, type, at };
    }
  }
}

/** Whether a block is a file without text, such as a PDF. */
function isFile({ source }: JsonObject, type: string): boolean {
  const { type: sourceType = null } = jsonObject(source);
  if (type === 'document')
    return typeof sourceType === 'string' && sourceType !== 'text' && sourceType !== 'content';
  return type === 'container_upload';
}

function fileRefused(path: string): ServiceError {
  return unsupported(path, 'must be `text` or `content`, because models read only the text of documents');
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
