import {
  REASONING_EFFORTS,
  type ChatRequest,
  type Continuation,
  type GenerationKind,
  type GenerationRequest,
  type JsonSchema,
  type Message,
  type ResponseFormat,
  type Role,
  type TextRequest,
  type Tool,
  type ToolCall,
  type ToolChoice,
  type Usage,
} from '../generation.ts';
import type { JsonObject } from '../openai/values.ts';

/**
 * The types and bounds of the fields of a request that an engine relies on. Services send only checked requests, but
 * anyone who reaches the port of an engine can send others. JSON schemas are checked when they are compiled.
 */

/** Returns the path of the first invalid value, relative to this one; null if there is none. */
type Check = (value: unknown) => string | null;

/** Checks for the fields of `T`. The compiler finds a field without a check. */
type Checks<T> = { readonly [Field in keyof T]-?: Check };

const is =
  (valid: (value: unknown) => boolean): Check =>
  (value) =>
    valid(value) ? null : '';

const anything: Check = () => null;
const string = is((value) => typeof value === 'string');
const boolean = is((value) => typeof value === 'boolean');
const number = is((value) => typeof value === 'number');
const object = is((value) => typeof value === 'object' && value !== null && !Array.isArray(value));

function integer(least: number, most = Number.MAX_SAFE_INTEGER): Check {
  return is((value) => Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most);
}

function orNull(check: Check): Check {
  return (value) => (value === null ? null : check(value));
}

function listOf(check: Check, least = 0): Check {
  return (value) => {
    if (!Array.isArray(value) || value.length < least) return '';
    for (const [index, item] of value.entries()) {
      const invalid = check(item);
      if (invalid !== null) return `[${index}]${invalid}`;
    }
    return null;
  };
}

function fieldsOf<T>(checks: Checks<T>): Check {
  const list = Object.entries<Check>(checks);
  return (value) => {
    if (object(value) !== null) return '';
    for (const [field, check] of list) {
      const invalid = check((value as Record<string, unknown>)[field]);
      if (invalid !== null) return `.${field}${invalid}`;
    }
    return null;
  };
}

/** Checks an object of one of several kinds. `field` has the kind. */
function variantOf(field: string, variants: Readonly<Record<string, Check>>): Check {
  return (value) => {
    const kind = object(value) === null ? (value as Record<string, unknown>)[field] : null;
    const check = typeof kind === 'string' && Object.hasOwn(variants, kind) ? variants[kind] : undefined;
    return check ? check(value) : `.${field}`;
  };
}

type MessageOf<R extends Role> = Extract<Message, { role: R }>;

const calls = listOf(fieldsOf<ToolCall>({ id: string, name: string, arguments: string }));
const text = fieldsOf<{ content: string }>({ content: string });
const messages = listOf(
  variantOf('role', {
    system: text,
    user: text,
    tool: fieldsOf<Omit<MessageOf<'tool'>, 'role'>>({ toolCallId: string, content: string }),
    assistant: fieldsOf<Omit<MessageOf<'assistant'>, 'role'>>({
      content: orNull(string),
      reasoning: orNull(string),
      toolCalls: calls,
    }),
  } satisfies Record<Role, Check>),
  1,
);

const tools = listOf(
  fieldsOf<Tool>({ name: string, description: orNull(string), parameters: object, strict: boolean }),
);
const toolChoice = variantOf('type', {
  auto: anything,
  none: anything,
  required: anything,
  function: fieldsOf<{ name: string }>({ name: string }),
  allowed: fieldsOf<{ mode: string; names: string[] }>({ mode: string, names: listOf(string) }),
} satisfies Record<ToolChoice['type'], Check>);

const responseFormat = variantOf('type', {
  text: anything,
  json_object: anything,
  json_schema: fieldsOf<{ schema: JsonSchema }>({
    schema: (value) => (typeof value === 'boolean' ? null : object(value)),
  }),
} satisfies Record<ResponseFormat['type'], Check>);

/** All but the biases are numbers, or null if they are not set. */
const sampling: Check = (value) => {
  if (object(value) !== null) return '';
  const { logitBias, ...numbers } = value as Record<string, unknown>;
  const unset = Object.entries(numbers).find(([, each]) => each !== null && typeof each !== 'number');
  if (unset) return `.${unset[0]}`;
  const invalid = listOf(bias)(logitBias);
  return invalid === null ? null : `.logitBias${invalid}`;
};
const bias: Check = (value) => listOf(number, 2)(value) ?? integer(0)((value as unknown[])[0]);

const count = integer(0);
const continuation = fieldsOf<Continuation>({
  promptTokenIds: orNull(listOf(count)),
  tokenIds: listOf(count),
  text: string,
  usage: fieldsOf<Usage>({
    promptTokens: count,
    completionTokens: count,
    cachedTokens: count,
    reasoningTokens: count,
  }),
});

const SHARED: Checks<Omit<GenerationRequest, 'kind'>> = {
  model: string,
  maxTokens: orNull(integer(1)),
  sampling,
  stop: listOf(is((value) => typeof value === 'string' && value !== '')),
  choices: integer(1),
  logprobs: orNull(integer(0, 20)),
  responseFormat,
  stream: boolean,
  includeUsage: orNull(boolean),
  tokenIds: boolean,
  continuation: orNull(continuation),
  cacheScope: orNull(string),
  traceparent: anything,
  user: anything,
};

const requests = variantOf('kind', {
  chat: fieldsOf<Omit<ChatRequest, 'kind'>>({
    ...SHARED,
    messages,
    tools,
    toolChoice,
    parallelToolCalls: boolean,
    reasoningEffort: orNull(is((value) => REASONING_EFFORTS.some((effort) => effort === value))),
    templateVariables: object,
  }),
  text: fieldsOf<Omit<TextRequest, 'kind'>>({ ...SHARED, prompts: listOf(string, 1), echo: boolean }),
} satisfies Record<GenerationKind, Check>);

/** Returns the path of the first invalid field of a `GenerationRequest` in its form as JSON, or null. */
export function invalidField(request: JsonObject): string | null {
  return requests(request)?.slice(1) ?? null;
}
