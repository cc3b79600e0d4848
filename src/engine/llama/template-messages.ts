import type { ChatRequest, Message, Tool, ToolCall } from '../../generation.ts';
import type { MarkedTexts } from './template-markers.ts';
import { parsedArguments } from './template-simplify.ts';
import { toolInstruction } from './tool-calls/generic.ts';
import { callText, resultText } from './tool-fallback.ts';

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

/** Returns `tools` for a template. */
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

/** Returns `messages` for a template. */
export function templateMessages(
  messages: readonly Message[],
  form: TemplateForm,
  texts: MarkedTexts,
): object[] {
  const ids = new Map<string, string>();
  const idOf = (id: string): string => {
    if (!form.shortIds) return texts.key(id);
    const known = ids.get(id) ?? String(ids.size).padStart(9, '0');
    ids.set(id, known);
    return known;
  };
  const names = new Map<string, string>();
  return separated(messages, form).map((message) => {
    switch (message.role) {
      case 'system':
      case 'user':
        return { role: message.role, content: texts.content(message.content) };
      case 'assistant': {
        const calls = message.toolCalls.map((call) => {
          names.set(call.id, call.name);
          const marked = { name: texts.key(call.name), arguments: markedArguments(call, form, texts) };
          return { id: idOf(call.id), type: 'function', function: marked };
        });
        return assistantMessage(message, calls, form, texts);
      }
      case 'tool': {
        const id = idOf(message.toolCallId);
        const name = texts.key(names.get(message.toolCallId) ?? '');
        return { role: 'tool', tool_call_id: id, name, content: texts.result(message.content) };
      }
    }
  });
}

/**
 * Returns messages for a template that cannot render tools. Tools, calls and results become text in Hermes' format.
 * `system` is true if the template has a system role.
 */
export function fallbackMessages(
  messages: readonly Message[],
  tools: readonly Tool[],
  system: boolean,
  texts: MarkedTexts,
): object[] {
  const list: { role: string; content: string }[] = [];
  let previous: Message['role'] | null = null;
  for (const message of messages) {
    const last = list.at(-1);
    if (message.role !== 'tool') list.push(textMessage(message, texts));
    else {
      const content = resultText(texts.result(message.content));
      if (previous === 'tool' && last !== undefined) last.content += `\n${content}`;
      else list.push({ role: 'user', content });
    }
    previous = message.role;
  }
  if (tools.length > 0) {
    const instruction = toolInstruction(tools.map((tool) => markedTool(tool, texts)));
    addInstruction(list, instruction, system ? 'system' : 'user');
  }
  return list;
}

type AssistantMessage = Extract<Message, { role: 'assistant' }>;

/** Returns a message with its calls as text. */
function textMessage(
  message: Exclude<Message, { role: 'tool' }>,
  texts: MarkedTexts,
): { role: string; content: string } {
  const content = texts.content(message.content ?? '');
  if (message.role !== 'assistant') return { role: message.role, content };
  const calls = message.toolCalls.map((call) =>
    callText(texts.key(call.name), texts.value(parsedArguments(call.arguments))),
  );
  const parts = [content, ...calls].filter((part) => part !== '');
  return { role: 'assistant', content: parts.join('\n'), ...reasoningOf(message, texts) };
}

/** Adds the instruction to the first message if it has the role, otherwise in a new message before it. */
function addInstruction(
  list: { role: string; content: string }[],
  instruction: string,
  role: 'system' | 'user',
): void {
  const first = list[0];
  if (first?.role !== role) list.unshift({ role, content: instruction });
  else if (role === 'system') first.content += `\n\n${instruction}`;
  else first.content = `${instruction}\n\n${first.content}`;
}

/** Splits assistant messages, and moves each result after its call, if the form requires it. */
function separated(messages: readonly Message[], form: TemplateForm): Message[] {
  if (!form.separateContent && !form.separateCalls) return [...messages];
  const list: Message[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at] as Message;
    if (message.role !== 'assistant' || message.toolCalls.length === 0) {
      list.push(message);
      continue;
    }
    let rest: AssistantMessage = message;
    if (form.separateContent && message.content) {
      list.push({ ...message, toolCalls: [] });
      rest = { ...message, content: null, reasoning: null };
    }
    if (!form.separateCalls) {
      list.push(rest);
      continue;
    }
    const results: Message[] = [];
    for (; messages[at + 1]?.role === 'tool'; at++) results.push(messages[at + 1] as Message);
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
): object {
  const content = texts.content(message.content ?? '');
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
  const marked = texts.content(reasoning);
  return { reasoning_content: marked, ...((!content || toolCalls.length === 0) && { thinking: marked }) };
}

function markedTool({ name, description, parameters, strict }: Tool, texts: MarkedTexts): Tool {
  return {
    name: texts.key(name),
    description: description === null ? null : (texts.value(description) as string),
    parameters: texts.value(parameters) as Tool['parameters'],
    strict,
  };
}

function markedArguments(call: ToolCall, form: TemplateForm, texts: MarkedTexts): unknown {
  const value = texts.value(parsedArguments(call.arguments));
  return form.textArguments && typeof value === 'object' ? JSON.stringify(value) : value;
}
