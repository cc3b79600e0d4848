import type { ChatRequest, ServerDialect, Message, Tool, ToolChoice } from '../generation.ts';

type Body = Record<string, unknown>;

/** Formats the fields that only chats have: messages, tools and reasoning. */
export function formatChat(
  request: ChatRequest,
  dialect: ServerDialect,
  reasoningField?: ReasoningField,
): Body {
  const field = dialect === 'openai' ? (reasoningField ?? null) : REASONING_FIELD[dialect];
  return {
    messages: request.messages.flatMap((message) => formatMessage(message, dialect, field)),
    ...(request.tools.length > 0 ? formatTools(request, dialect) : {}),
    ...formatReasoning(request, dialect),
  };
}

/** The field of an assistant message that contains its reasoning. The name depends on the server. */
export type ReasoningField = 'reasoning' | 'reasoning_content';

/**
 * The field that each server reads; null: none. `openai` is missing because the field depends on the provider: some require
 * a field, and others refuse it.
 */
const REASONING_FIELD: Readonly<Record<Exclude<ServerDialect, 'openai'>, ReasoningField | null>> = {
  vllm: 'reasoning',
  sglang: 'reasoning_content',
  'llama-server': 'reasoning_content',
  tgi: null,
};

function formatMessage(message: Message, dialect: ServerDialect, field: ReasoningField | null): Body[] {
  switch (message.role) {
    case 'system':
    case 'user':
      return [{ role: message.role, content: message.content }];
    case 'tool':
      return [{ role: 'tool', tool_call_id: message.toolCallId, content: message.content }];
    case 'assistant': {
      const { role, content, reasoning, toolCalls } = message;
      if (toolCalls.length === 0) return [{ role, content, ...reasoningOf(reasoning, field) }];
      const calls = toolCalls.map(({ id, name, arguments: text }) => ({
        id,
        type: 'function',
        function: { name, arguments: text },
      }));
      // TGI reads either the content or the calls of a message.
      if (dialect === 'tgi') {
        return [...(content ? [{ role, content }] : []), { role, tool_calls: calls }];
      }
      return [{ role, content, ...reasoningOf(reasoning, field), tool_calls: calls }];
    }
  }
}

function reasoningOf(reasoning: string | null, field: ReasoningField | null): Body {
  return reasoning === null || field === null ? {} : { [field]: reasoning };
}

function formatTools(request: ChatRequest, dialect: ServerDialect): Body {
  const { tools, choice } = TOOL_CHOICES[dialect](request);
  const body: Body = { tools: tools.map(formatTool) };
  // `auto` is the default of all servers.
  if (choice !== 'auto') body.tool_choice = choice;
  // The default of llama-server is false; TGI never generates more than one call.
  if (dialect === 'llama-server' || (!request.parallelToolCalls && dialect !== 'tgi')) {
    body.parallel_tool_calls = request.parallelToolCalls;
  }
  return body;
}

function formatTool({ name, description, parameters, strict }: Tool): Body {
  return {
    type: 'function',
    function: {
      name,
      ...(description === null ? {} : { description }),
      parameters,
      ...(strict ? { strict } : {}),
    },
  };
}

type FormattedChoice = { tools: readonly Tool[]; choice: unknown };

const TOOL_CHOICES: Readonly<Record<ServerDialect, (request: ChatRequest) => FormattedChoice>> = {
  vllm: withAllowedTools,
  sglang: withAllowedTools,
  // llama-server ignores a `tool_choice` that is not a string.
  'llama-server': (request) => {
    const { tools, toolChoice } = request;
    if (toolChoice.type !== 'function') return withAllowedTools(request);
    return { tools: tools.filter(({ name }) => name === toolChoice.name), choice: 'required' };
  },
  tgi: withAllowedTools,
  // Few providers have `allowed_tools`.
  openai: withAllowedTools,
};

/** For servers without `allowed_tools`: sends only the allowed functions. */
function withAllowedTools({ tools, toolChoice }: ChatRequest): FormattedChoice {
  if (toolChoice.type !== 'allowed') return { tools, choice: formatChoice(toolChoice) };
  const allowed = new Set(toolChoice.names);
  return { tools: tools.filter(({ name }) => allowed.has(name)), choice: toolChoice.mode };
}

function formatChoice(choice: ToolChoice): unknown {
  switch (choice.type) {
    case 'auto':
    case 'none':
    case 'required':
      return choice.type;
    case 'function':
      return { type: 'function', function: { name: choice.name } };
    case 'allowed': {
      const tools = choice.names.map((name) => ({ type: 'function', function: { name } }));
      return { type: 'allowed_tools', allowed_tools: { mode: choice.mode, tools } };
    }
  }
}

function formatReasoning({ reasoningEffort, templateVariables }: ChatRequest, dialect: ServerDialect): Body {
  // TGI supports neither field, and only values without effect get here.
  if (dialect === 'tgi') return {};
  const body: Body = {};
  let variables = templateVariables;
  if (reasoningEffort !== null) {
    // llama-server has no field for the effort. Templates read it from variables.
    if (dialect === 'llama-server') variables = { ...effortVariables(reasoningEffort), ...variables };
    else body.reasoning_effort = reasoningEffort;
  }
  if (Object.keys(variables).length > 0) body.chat_template_kwargs = variables;
  return body;
}

function effortVariables(effort: string): Body {
  return effort === 'none' ? { enable_thinking: false } : { enable_thinking: true, reasoning_effort: effort };
}
