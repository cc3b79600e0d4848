export type Body = Readonly<Record<string, unknown>>;

/** The APIs for chats: OpenAI's chat completions and responses, and Anthropic's messages. */
export type ChatApi = 'chat' | 'responses' | 'messages';

interface Call {
  id: string;
  function: { name: string; arguments: string };
}

type Part = { type?: 'text'; text: string } | { type: 'image_url'; image_url: { url: string } };

interface Message {
  role: string;
  content: string | readonly Part[] | null;
  reasoning_content?: string;
  tool_calls?: readonly Call[];
  tool_call_id?: string;
}

interface Tool {
  function: { name: string; description?: string; parameters?: object; strict?: boolean };
}

/** The body of a chat completion, as the console writes it. */
interface Chat {
  messages: readonly Message[];
  tools?: readonly Tool[];
  tool_choice?: string | { function: { name: string } };
  parallel_tool_calls?: boolean;
  response_format?: { type: string; json_schema?: { schema: object } };
  reasoning_effort?: string;
  max_tokens?: number;
  max_completion_tokens?: number;
  stop?: string | readonly string[];
  logprobs?: boolean;
  user?: string;
}

/** `max_tokens` of messages, where it is required, if the request has no maximum. */
const MAX_TOKENS = 1024;

/**
 * Returns the body for another API that asks for the same as a chat completion. Leaves out what the API does not have,
 * such as several choices. The fields of the result can be undefined.
 */
export function translate(request: Body, api: Exclude<ChatApi, 'chat'>): Body {
  const { stream_options: _, n: __, ...body } = request;
  // Invalid requests of the playground are shown too, so only what is used is of the expected type.
  const chat = body as Body & Chat;
  const leading = chat.messages.findIndex(({ role }) => role !== 'system');
  const start = leading === -1 ? chat.messages.length : leading;
  const system = chat.messages.slice(0, start).map(textOf).join('\n\n') || undefined;
  const messages = chat.messages.slice(start);
  return api === 'responses' ? toResponses(chat, system, messages) : toMessages(chat, system, messages);
}

function toResponses(
  chat: Body & Chat,
  instructions: string | undefined,
  messages: readonly Message[],
): Body {
  const { messages: _, tools, tool_choice: choice, response_format: format, ...more } = chat;
  const {
    max_tokens: maximum,
    max_completion_tokens: newer,
    reasoning_effort: effort,
    logprobs,
    ...same
  } = more;
  const { model, ...rest } = same;
  const [first] = messages;
  const only = messages.length === 1 && first?.role === 'user' && !hasImages(first) ? textOf(first) : null;
  return {
    model,
    instructions,
    input: only ?? messages.flatMap(itemsOf),
    max_output_tokens: newer ?? maximum,
    tools: tools?.map((tool) => ({ type: 'function', strict: false, ...tool.function })),
    tool_choice: typeof choice === 'object' ? { type: 'function', name: choice.function.name } : choice,
    reasoning: effort && { effort },
    text: format && { format: { ...format.json_schema, type: format.type } },
    include: logprobs === true ? ['message.output_text.logprobs'] : undefined,
    ...rest,
  };
}

function itemsOf(message: Message): object[] {
  const { role, reasoning_content: reasoning, tool_calls: calls = [], tool_call_id: id } = message;
  const text = textOf(message);
  if (role === 'tool') return [{ type: 'function_call_output', call_id: id, output: text }];
  const thought = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: reasoning }] };
  return [
    ...(reasoning === undefined ? [] : [thought]),
    ...(text === '' && calls.length > 0
      ? []
      : [{ role, content: hasImages(message) ? partsOf(message, INPUT_PART) : text }]),
    ...calls.map((call) => ({ type: 'function_call', call_id: call.id, ...call.function })),
  ];
}

function toMessages(chat: Body & Chat, system: string | undefined, messages: readonly Message[]): Body {
  const { messages: _, tools, tool_choice: choice, parallel_tool_calls: parallel, ...more } = chat;
  const { max_tokens: maximum, max_completion_tokens: newer, reasoning_effort: effort, ...others } = more;
  const {
    response_format: format,
    stop,
    user,
    logprobs: __,
    top_logprobs: ___,
    metadata: ____,
    ...same
  } = others;
  const { model, ...rest } = same;
  const schema = format?.json_schema?.schema;
  return {
    model,
    max_tokens: newer ?? maximum ?? MAX_TOKENS,
    system,
    messages: turnsOf(messages),
    stop_sequences: typeof stop === 'string' ? [stop] : stop,
    tools: tools?.map(({ function: { name, description, parameters, strict } }) => ({
      name,
      description,
      input_schema: parameters ?? { type: 'object' },
      strict,
    })),
    tool_choice: anthropicChoice(choice, parallel),
    output_config: (effort ?? schema) && { effort, format: schema && { type: 'json_schema', schema } },
    metadata: user && { user_id: user },
    ...rest,
  };
}

/** Results are blocks of the user. Reasoning is left out, because it is only accepted with its signature. */
function turnsOf(messages: readonly Message[]): object[] {
  const turns: { role: string; content: string | object[] }[] = [];
  for (const message of messages) {
    const { role, tool_calls: calls = [], tool_call_id: id } = message;
    const text = textOf(message);
    const last = turns.at(-1);
    if (role === 'tool') {
      const result = { type: 'tool_result', tool_use_id: id, content: text };
      if (last?.role === 'user' && typeof last.content === 'object') last.content.push(result);
      else turns.push({ role: 'user', content: [result] });
    } else if (role === 'user' && last?.role === 'user' && typeof last.content === 'object') {
      last.content.push(...partsOf(message, BLOCK));
    } else if (hasImages(message)) turns.push({ role, content: partsOf(message, BLOCK) });
    else if (calls.length === 0) turns.push({ role, content: text });
    else {
      const uses = calls.map((call) => ({
        type: 'tool_use',
        id: call.id,
        name: call.function.name,
        input: argumentsOf(call),
      }));
      turns.push({ role, content: text === '' ? uses : [{ type: 'text', text }, ...uses] });
    }
  }
  return turns;
}

function anthropicChoice(choice: Chat['tool_choice'], parallel = true): object | undefined {
  if (choice === undefined && parallel) return undefined;
  const one = parallel ? {} : { disable_parallel_tool_use: true };
  if (typeof choice === 'object') return { type: 'tool', name: choice.function.name, ...one };
  return { type: choice === 'required' ? 'any' : (choice ?? 'auto'), ...(choice === 'none' ? {} : one) };
}

function argumentsOf(call: Call): unknown {
  try {
    return JSON.parse(call.function.arguments);
  } catch {
    return {};
  }
}

/** How an API writes the parts of a message. */
interface PartForms {
  text: (text: string) => object;
  image: (url: string) => object;
}

const INPUT_PART: PartForms = {
  text: (text) => ({ type: 'input_text', text }),
  image: (image_url) => ({ type: 'input_image', image_url }),
};

const BLOCK: PartForms = {
  text: (text) => ({ type: 'text', text }),
  image: (url) => {
    const [, media_type, data] = /^data:([^;,]*);base64,(.*)$/s.exec(url) ?? [];
    const source = media_type === undefined ? { type: 'url', url } : { type: 'base64', media_type, data };
    return { type: 'image', source };
  },
};

function partsOf({ content }: Message, { text, image }: PartForms): object[] {
  if (typeof content !== 'object') return [text(content)];
  return (content ?? []).map((part) => ('image_url' in part ? image(part.image_url.url) : text(part.text)));
}

function hasImages({ content }: Message): boolean {
  return typeof content === 'object' && (content ?? []).some((part) => 'image_url' in part);
}

function textOf({ content }: Message): string {
  if (typeof content !== 'object') return content;
  return (content ?? []).map((part) => ('image_url' in part ? '' : part.text)).join('');
}
