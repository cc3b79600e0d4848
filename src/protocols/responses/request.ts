import type { ChatRequest } from '../../core/generation.ts';
import type { ParseOptions } from '../../core/protocol.ts';
import { LARGE_JSON, writeLargeJson } from '../../json/json-thread.ts';
import { RequestBody } from '../request-body.ts';
import {
  clampTokens,
  parseFormat,
  parseJsonSchemaFormat,
  parseSampling,
  parseStop,
} from '../openai/request.ts';
import { parseReasoningBudget, parseTemplateVariables } from '../openai/tools.ts';
import { asList, asString, jsonObject, unsupported, wrongType, type JsonObject } from '../../json/values.ts';
import * as fields from './fields.ts';
import { parseInput } from './input.ts';
import { members } from './items.ts';
import { parseTooling, type ToolIdentity } from './tools.ts';
import type { Tooling } from '../tooling.ts';

/** A request, and what its response needs besides. */
export interface ResponsesRequest {
  generation: ChatRequest;
  tooling: Tooling<ToolIdentity>;
  /** Seals the reasoning of the response; null: the caller did not ask for it. */
  seal: ((text: string) => string) | null;
  echo: Echo;
}

/** The fields of a request that its response repeats. They are written once, though each of three events has them. */
class Echo {
  #instructions: unknown;
  #fields: object | null;
  /** The JSON of the instructions, if they are long; then that of all fields. */
  #json: string | null = null;

  constructor(instructions: unknown, fields: object) {
    this.#instructions = instructions;
    this.#fields = fields;
  }

  /** JSON without the braces. */
  get json(): string {
    if (this.#fields !== null) {
      this.#json ??= JSON.stringify(this.#instructions);
      this.#json = `"instructions":${this.#json},${members(this.#fields)}`;
      [this.#instructions, this.#fields] = [null, null];
    }
    return this.#json ?? '';
  }

  /** Writes long instructions on a thread, before `json` is used. */
  async prepare(): Promise<void> {
    const text = this.#instructions;
    if (typeof text !== 'string' || text.length < LARGE_JSON) return;
    this.#json = Buffer.from(await writeLargeJson(text)).toString();
  }
}

/** Parses the body of `POST /v1/responses`. Throws a 400 with the path of the field. */
export function parseResponsesRequest(
  object: JsonObject,
  { notes, sealer }: Pick<ParseOptions, 'notes' | 'sealer'>,
): ResponsesRequest {
  refuseStored(object);
  const body = new RequestBody(object, fields.RESPONSES_FIELDS, notes);
  const text = body.nested(fields.text);
  body.nested(fields.streamOptions);
  const included = parseInclude(body);
  const tooling = parseTooling(body);
  const { tools, toolChoice, parallelToolCalls } = tooling;
  const reasoning = body.nested(fields.reasoning);
  const templateVariables = parseTemplateVariables(body);
  const generation: ChatRequest = {
    kind: 'chat',
    model: body.read(fields.model) ?? '', // Required: `read` throws if it is absent.
    messages: parseInput(body, sealer),
    maxTokens: clampTokens(body.read(fields.maxOutputTokens)),
    sampling: parseSampling(body),
    stop: parseStop(body.raw(fields.stop)),
    choices: 1,
    logprobs: parseLogprobs(body, included),
    responseFormat: parseFormat(text.optional('format'), (format) =>
      parseJsonSchemaFormat(format, SCHEMA_FIELDS),
    ),
    stream: body.read(fields.stream),
    includeUsage: null,
    tokenIds: false,
    continuation: null,
    cacheScope: null,
    user: body.read(fields.user),
    tools,
    toolChoice,
    parallelToolCalls,
    reasoningEffort: reasoning.read(fields.reasoningEffort),
    reasoningBudget: parseReasoningBudget(reasoning.read(fields.reasoningBudget), templateVariables),
    templateVariables,
  };
  return {
    generation,
    tooling,
    seal: included.has(SEALED) ? (value) => sealer.seal(value) : null,
    echo: new Echo(object['instructions'] ?? null, echoOf(object, generation)),
  };
}

const NEED_STORED = Object.entries(fields.INSTEAD);

/** Refuses fields that need a stored response or prompt. */
function refuseStored(object: JsonObject): void {
  for (const [name, instead] of NEED_STORED) {
    const value = object[name] ?? null;
    if (value === null || (name === 'background' && value === false)) continue;
    throw unsupported(name, `is not supported, because nothing is stored; ${instead}`);
  }
}

const SEALED = 'reasoning.encrypted_content';
const LOGPROBS = 'message.output_text.logprobs';

const NOTHING_INCLUDED: ReadonlySet<string> = new Set();

function parseInclude(body: RequestBody): ReadonlySet<string> {
  const value = body.raw(fields.include);
  if (value === null) return NOTHING_INCLUDED;
  if (!Array.isArray(value)) throw wrongType('include', 'an array of strings', value);
  const included = value.map((name, index) => asString(name, `include[${index}]`));
  included.forEach((name, index) => {
    if (name !== SEALED && name !== LOGPROBS) body.notes.add(`include[${index}]`, 'ignored');
  });
  return new Set(included);
}

function parseLogprobs(body: RequestBody, included: ReadonlySet<string>): number | null {
  const alternatives = body.read(fields.topLogprobs);
  if (included.has(LOGPROBS)) return alternatives ?? 0;
  if (alternatives !== null && alternatives > 0) {
    body.notes.add('top_logprobs', `ignored (\`include\` does not have ${LOGPROBS})`);
  }
  return null;
}

const SCHEMA_FIELDS = new Set(['type', 'name', 'description', 'schema', 'strict']);

function echoOf(object: JsonObject, { sampling, parallelToolCalls, ...request }: ChatRequest): object {
  return {
    max_output_tokens: object['max_output_tokens'] ?? null,
    max_tool_calls: null,
    metadata: jsonObject(object['metadata']),
    parallel_tool_calls: parallelToolCalls,
    previous_response_id: null,
    prompt_cache_key: object['prompt_cache_key'] ?? null,
    reasoning: { effort: request.reasoningEffort, summary: null },
    safety_identifier: object['safety_identifier'] ?? null,
    service_tier: 'default',
    store: false,
    temperature: sampling.temperature,
    text: { format: jsonObject(object['text'])['format'] ?? { type: 'text' }, verbosity: 'medium' },
    tool_choice: object['tool_choice'] ?? 'auto',
    tools: asList(object['tools']).map(echoTool),
    top_logprobs: request.logprobs ?? 0,
    top_p: sampling.topP,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    truncation: 'disabled',
    user: request.user,
    background: false,
  };
}

/** Typed clients expect every field of a function. */
function echoTool(tool: unknown): unknown {
  const object = jsonObject(tool);
  if (object['type'] !== 'function') return tool;
  return { description: null, parameters: null, strict: false, ...object };
}
