import { isRawNumber, parseExactJson } from '../../../json/exact-json.ts';
import type { ChatRequest, Message, Tool, ToolCall } from '../../../core/generation.ts';
import type { MarkedTexts } from './template-markers.ts';
import { toolInstruction } from '../tool-calls/json-formats.ts';

/** The form of messages that a template renders. Templates differ, so `ChatTemplate` tries all forms at load. */
export interface TemplateForm {
  /** Content of an assistant message that only has calls. */
  noContent: null | '';
  /** Whether arguments are JSON text instead of an object. */
  textArguments: boolean;
  /** Whether IDs of calls have nine characters, which Mistral's templates require. */
  shortIds: boolean;
  /** Whether content and calls must be in separate assistant messages. */
  separateContent: boolean;
  /** Whether each call must be in a separate assistant message, followed by its result. */
  separateCalls: boolean;
  /** Value of `description` for a tool without one. */
  noDescription: undefined | '';
}

/** Returns every form, those with the fewest changes to OpenAI's format first. */
export function templateForms(): TemplateForm[] {
  const forms: { changes: number; form: TemplateForm }[] = [];
  for (let bits = 0; bits < 64; bits++) {
    const has = (bit: number): boolean => (bits & (1 << bit)) !== 0;
    const form: TemplateForm = {
      noContent: has(0) ? '' : null,
      noDescription: has(1) ? '' : undefined,
      shortIds: has(2),
      separateCalls: has(3),
      separateContent: has(4),
      textArguments: has(5),
    };
    forms.push({ changes: Array.from({ length: 6 }, (_, bit) => has(bit)).filter(Boolean).length, form });
  }
  return forms.sort((a, b) => a.changes - b.changes).map(({ form }) => form);
}

/**
 * Returns the tools to include in the prompt: none for the choice `none`, and only the listed ones for `allowed`. The
 * others are left out, because if a model began to call one of them, the grammar would force it to call another tool.
 */
export function offeredTools({
  tools,
  toolChoice,
}: Pick<ChatRequest, 'tools' | 'toolChoice'>): readonly Tool[] {
  switch (toolChoice.type) {
    case 'none':
      return [];
    case 'allowed':
      return tools.filter(({ name }) => toolChoice.names.includes(name));
    case 'auto':
    case 'required':
    case 'function':
      return tools;
  }
}

export function templateTools(
  tools: readonly Tool[],
  { noDescription }: TemplateForm,
  texts: MarkedTexts,
): object[] {
  return tools.map((tool) => {
    const { name, description, parameters } = markedTool(tool, texts);
    return { type: 'function', function: { name, description: description ?? noDescription, parameters } };
  });
}

/**
 * How the turns of a chat are changed for a template that refuses them or leaves some out. `unchanged`: not at all.
 * Otherwise, system messages move into the turns of the user (`system-first`: all but those at the start, `no-system`:
 * all), messages in a row with the same role are joined, and empty assistant messages are removed.
 */
export type Turns = 'unchanged' | 'system-first' | 'no-system';

/** A message as templates read it. */
interface TemplateMessage {
  role: Message['role'];
  content: string | null;
  tool_calls?: readonly object[];
  tool_call_id?: string;
  name?: string;
}

export function templateMessages(
  messages: readonly Message[],
  form: TemplateForm,
  turns: Turns,
  texts: MarkedTexts,
): TemplateMessage[] {
  const ids = new CallIds(form);
  const names = new Map<string, string>();
  const list = separated(placed(messages, turns), form).map((message): TemplateMessage => {
    switch (message.role) {
      case 'system':
      case 'user':
        return { role: message.role, content: texts.content(message.content, message.path) };
      case 'assistant': {
        const calls = message.toolCalls.map((call) => {
          names.set(call.id, call.name);
          const marked = {
            name: texts.key(call.name),
            arguments: markedArguments(call, form, texts, message.path),
          };
          return { id: texts.key(ids.add(call.id)), type: 'function', function: marked };
        });
        return assistantMessage(message, calls, form, texts);
      }
      case 'tool': {
        const id = texts.key(ids.of(message.toolCallId));
        const name = texts.key(names.get(message.toolCallId) ?? '');
        const content = texts.result(message.content, message.path);
        return { role: 'tool', tool_call_id: id, name, content };
      }
    }
  });
  return turns === 'unchanged' ? list : joined(list);
}

/**
 * The IDs of calls in a template. They are unique in the chat, because Cohere's templates look for the call of a result in
 * all messages. Callers only have to use different IDs in one message.
 */
class CallIds {
  readonly #isShort: boolean;
  readonly #used = new Set<string>();
  /** The template's ID of the latest call with each of the caller's IDs. */
  readonly #latest = new Map<string, string>();
  #suffix = 0;

  constructor({ shortIds }: TemplateForm) {
    this.#isShort = shortIds;
  }

  /** Returns the ID of a new call. */
  add(id: string): string {
    let unique = this.#isShort ? String(this.#used.size).padStart(9, '0') : id;
    while (this.#used.has(unique)) unique = `${id}_${this.#suffix++}`;
    this.#used.add(unique);
    this.#latest.set(id, unique);
    return unique;
  }

  /** Returns the ID of the latest call to which the caller gave this ID. */
  of(id: string): string {
    return this.#latest.get(id) ?? id;
  }
}

/**
 * Returns messages for a template that cannot render tools. Tools, calls and results become text in Hermes' format. The
 * tools are described after the system messages at the start.
 */
export function fallbackMessages(
  messages: readonly Message[],
  tools: readonly Tool[],
  turns: Turns,
  texts: MarkedTexts,
): TemplateMessage[] {
  const list: TextMessage[] = [];
  let previous: Message['role'] | null = null;
  for (const message of placed(messages, turns)) {
    const last = list.at(-1);
    if (message.role !== 'tool') list.push(textMessage(message, texts));
    else {
      const content = resultText(texts.result(message.content, message.path));
      if (previous === 'tool' && last !== undefined) last.content += `\n${content}`;
      else list.push({ role: 'user', content });
    }
    previous = message.role;
  }
  if (tools.length > 0) {
    const instruction = toolInstruction(tools.map((tool) => markedTool(tool, texts)));
    addInstruction(list, leadingSystemMessages(messages), instruction, turns);
  }
  return turns === 'unchanged' ? list : joined(list);
}

/** A message and its path in the request. */
type PlacedMessage = Message & { path: string };

/** Moves system messages into the turns of the user, marked by tags that no other message can contain. */
function placed(messages: readonly Message[], turns: Turns): PlacedMessage[] {
  const list = messages.map((message, index) => ({ ...message, path: `messages[${index}]` }));
  if (turns === 'unchanged') return list;
  const leading = leadingSystemMessages(messages);
  return list.map((message, index): PlacedMessage => {
    if (message.role !== 'system' || index >= leading) {
      const content = message.content?.replace(SYSTEM_TAGS, '&lt;') ?? '';
      if (message.role !== 'system') return { ...message, content };
      const marked = content.trim() === '' ? '' : `<system_message>\n${content}\n</system_message>`;
      return { ...message, role: 'user', content: marked };
    }
    return turns === 'no-system' ? { ...message, role: 'user' } : message;
  });
}

/** Matches the `<` of the tags around a system message in a turn of the user. */
const SYSTEM_TAGS = /<(?=\/?system_message>)/g;

/** Returns the number of system messages at the start. */
function leadingSystemMessages(messages: readonly Message[]): number {
  const end = messages.findIndex(({ role }) => role !== 'system');
  return end === -1 ? messages.length : end;
}

/** Joins messages in a row with the same role, except results and calls, and removes empty assistant messages. */
function joined(messages: readonly TemplateMessage[]): TemplateMessage[] {
  const isText = ({ role, tool_calls: calls }: TemplateMessage): boolean =>
    role !== 'tool' && calls === undefined;
  const list: TemplateMessage[] = [];
  for (const message of messages) {
    const last = list.at(-1);
    if (message.role === 'assistant' && isText(message) && !message.content?.trim()) continue;
    if (last?.role !== message.role || !isText(last) || !isText(message)) list.push({ ...message });
    else last.content = [last.content, message.content].filter(Boolean).join('\n\n');
  }
  return list;
}

type AssistantMessage = Extract<PlacedMessage, { role: 'assistant' }>;

interface TextMessage extends TemplateMessage {
  content: string;
}

/** Returns a message with its calls as text. */
function textMessage(message: Exclude<PlacedMessage, { role: 'tool' }>, texts: MarkedTexts): TextMessage {
  if (message.role !== 'assistant')
    return { role: message.role, content: texts.content(message.content, message.path) };
  const content = texts.content(message.content ?? '', message.path, { isAnswer: true });
  const calls = message.toolCalls.map((call) =>
    callText(texts.key(call.name), texts.value(parsedArguments(call.arguments), message.path)),
  );
  const parts = [content, ...calls].filter((part) => part !== '');
  return { role: 'assistant', content: parts.join('\n'), ...reasoningOf(message, texts) };
}

/** Adds the instruction after the system messages at the start. */
function addInstruction(list: TextMessage[], leading: number, instruction: string, turns: Turns): void {
  const last = list[leading - 1];
  if (last !== undefined) last.content = [last.content, instruction].filter(Boolean).join('\n\n');
  else list.unshift({ role: turns === 'no-system' ? 'user' : 'system', content: instruction });
}

/** Splits assistant messages, and moves each result after its call, if the form requires it. */
function separated(messages: readonly PlacedMessage[], form: TemplateForm): PlacedMessage[] {
  if (!form.separateContent && !form.separateCalls) return [...messages];
  const list: PlacedMessage[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at] as PlacedMessage;
    if (message.role !== 'assistant' || message.toolCalls.length === 0) {
      list.push(message);
      continue;
    }
    let rest: AssistantMessage = message;
    if (form.separateContent && message.content) {
      // The reasoning stays with the calls, because gpt-oss needs it there until its answer.
      list.push({ ...message, reasoning: null, toolCalls: [] });
      rest = { ...message, content: null };
    }
    if (!form.separateCalls) {
      list.push(rest);
      continue;
    }
    const results: PlacedMessage[] = [];
    for (; messages[at + 1]?.role === 'tool'; at++) results.push(messages[at + 1] as PlacedMessage);
    for (const [index, call] of rest.toolCalls.entries()) {
      const first = index === 0 ? rest : { ...rest, content: null, reasoning: null };
      list.push({ ...first, toolCalls: [call] });
      list.push(...results.filter((result) => result.role === 'tool' && result.toolCallId === call.id));
    }
  }
  return list;
}

function assistantMessage(
  message: AssistantMessage,
  calls: readonly object[],
  form: TemplateForm,
  texts: MarkedTexts,
): TemplateMessage {
  const content = texts.content(message.content ?? '', message.path, { isAnswer: true });
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? form.noContent : content,
    ...reasoningOf(message, texts),
    // Omitted if empty, because templates only check whether `tool_calls` exists.
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** `thinking` is for gpt-oss, which refuses a message that has calls, content and `thinking`. */
function reasoningOf({ content, reasoning, toolCalls }: AssistantMessage, texts: MarkedTexts): object {
  if (reasoning === null || reasoning === '') return {};
  const marked = texts.content(reasoning, null);
  return { reasoning_content: marked, ...((!content || toolCalls.length === 0) && { thinking: marked }) };
}

function markedTool({ name, description, parameters, strict }: Tool, texts: MarkedTexts): Tool {
  return {
    // Templates of Mistral leave out the tools if there is no user message.
    name: texts.required('tools') + texts.key(name),
    description: description === null ? null : (texts.value(description) as string),
    parameters: texts.value(parameters) as Tool['parameters'],
    strict,
  };
}

function markedArguments(call: ToolCall, form: TemplateForm, texts: MarkedTexts, path: string): unknown {
  const value = texts.value(parsedArguments(call.arguments), path);
  return form.textArguments && typeof value === 'object' ? JSON.stringify(value) : value;
}

/**
 * Replaces null arguments with the text `null`, for templates that fail with null because they handle each value as
 * text.
 */
export function withoutNullArguments(message: Message): Message {
  if (message.role !== 'assistant') return message;
  const toolCalls = message.toolCalls.map((call) => {
    const values = parsedArguments(call.arguments);
    if (!isObject(values)) return call;
    const entries = Object.entries(values).map(([name, value]) => [name, value === null ? 'null' : value]);
    return { ...call, arguments: JSON.stringify(Object.fromEntries(entries)) };
  });
  return { ...message, toolCalls };
}

/** Parses the arguments of a call. Returns the text itself if it is not a JSON object. */
function parsedArguments(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    const value = parseExactJson(text);
    return isObject(value) ? value : text;
  } catch {
    return text;
  }
}

/** Simplifies the schema of a tool's arguments. */
export function withSimpleSchema(tool: Tool): Tool {
  return { ...tool, parameters: simplifiedSchema(tool.parameters) };
}

/**
 * Returns a schema for templates that fail with the original one: each property has exactly one type, and null values
 * such as `default: null` are removed. Only changes the prompt, not the grammar of the arguments.
 */
function simplifiedSchema(schema: unknown): Record<string, unknown> {
  const keywords = isObject(schema) ? schema : {};
  const entries = Object.entries(keywords).flatMap(([name, value]): [string, unknown][] => {
    if (value === null) return [];
    if (name === 'properties' && isObject(value)) {
      const properties = Object.entries(value).map(([key, item]) => [key, simplifiedSchema(item)]);
      return [[name, Object.fromEntries(properties)]];
    }
    return [[name, name === 'items' ? simplifiedSchema(value) : value]];
  });
  return { ...Object.fromEntries(entries), type: typeOf(keywords) ?? 'string' };
}

/** Returns the first type other than `null`, or null if none is known. */
function typeOf({
  type,
  enum: values,
  anyOf,
  oneOf,
  properties,
  items,
}: Record<string, unknown>): string | null {
  const types: unknown[] = Array.isArray(type) ? type : [type];
  for (const alternatives of [anyOf, oneOf]) {
    if (Array.isArray(alternatives))
      types.push(...alternatives.map((item) => isObject(item) && typeOf(item)));
  }
  const found = types.find((name) => typeof name === 'string' && name !== 'null');
  if (typeof found === 'string') return found;
  if (properties !== undefined) return 'object';
  if (items !== undefined) return 'array';
  const example: unknown = Array.isArray(values) ? values.find((value) => value !== null) : undefined;
  if (isRawNumber(example)) return 'number';
  return typeof example === 'number' || typeof example === 'boolean' ? typeof example : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the text of a call, for templates that do not render calls. `args` is a JSON value with markers. */
function callText(name: string, args: unknown): string {
  return `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${JSON.stringify(args)}}\n</tool_call>`;
}

/** Returns the text of a call's result, for templates that do not render results. */
function resultText(content: string): string {
  return `<tool_response>\n${content}\n</tool_response>`;
}

/** The tags in these texts and in `toolInstruction` (`tool-calls/json-formats.ts`). */
export const FALLBACK_TAGS = '<tools></tools><tool_call></tool_call><tool_response></tool_response>';
