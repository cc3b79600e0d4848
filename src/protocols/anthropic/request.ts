import {
  EFFORT_BUDGETS,
  estimatedPromptTokens,
  type ChatRequest,
  type ModelCard,
  type ReasoningEffort,
  type ResponseFormat,
} from '../../core/generation.ts';
import type { Element } from '../element.ts';
import { RequestBody } from '../request-body.ts';
import { clampTokens, parseSampling, parseStop, parseStrictSchema } from '../openai/request.ts';
import { parseReasoningBudget, parseTemplateVariables } from '../openai/tools.ts';
import { unsupported, wrongValue, type JsonObject } from '../../json/values.ts';
import type { ParseOptions } from '../../core/protocol.ts';
import * as fields from './fields.ts';
import { parseMessages } from './messages.ts';
import { parseTooling } from './tools.ts';
import type { Tooling } from '../tooling.ts';

/** A request, and what its response needs besides. */
export interface MessagesRequest {
  generation: ChatRequest;
  tooling: Tooling<string>;
  /** Signs thinking, so that it can be sent back. */
  seal: (text: string) => string;
  /** Whether thinking is only in its signature. */
  omitsThinking: boolean;
}

/**
 * Parses the body of `POST /v1/messages`. `isCount`: nothing is generated, so any message may be the last one. Throws a 400
 * with the path of the field.
 */
export function parseMessagesRequest(
  object: JsonObject,
  { notes, sealer }: Pick<ParseOptions, 'notes' | 'sealer'>,
  isCount = false,
): MessagesRequest {
  if ((object['thread'] ?? null) !== null)
    throw unsupported('thread', 'is not supported, because nothing is stored; send all messages');
  const body = new RequestBody(object, fields.MESSAGES_FIELDS, notes);
  const output = body.nested(fields.outputConfig);
  const thinking = body.isSet(fields.thinking) ? body.nested(fields.thinking) : null;
  const conversation = parseMessages(body, sealer, isCount);
  const tooling = parseTooling(body, conversation.loadedTools);
  const { tools, toolChoice, parallelToolCalls } = tooling;
  const templateVariables = parseTemplateVariables(body);
  const generation: ChatRequest = {
    kind: 'chat',
    model: body.read(fields.model) ?? '', // Required: `read` throws if it is absent.
    messages: conversation.messages,
    maxTokens: clampTokens(body.read(fields.maxTokens)),
    sampling: parseSampling(body),
    stop: parseStop(body.raw(fields.stopSequences), fields.stopSequences.path, fields.MAX_STOP_SEQUENCES),
    choices: 1,
    logprobs: null,
    responseFormat: parseFormat(output.optional('format')),
    stream: body.read(fields.stream),
    includeUsage: null,
    tokenIds: false,
    continuation: null,
    cacheScope: null,
    user: body.nested(fields.metadata).read(fields.userId),
    tools,
    toolChoice,
    parallelToolCalls,
    ...parseThinking(thinking, output.read(fields.effort), templateVariables),
    templateVariables,
  };
  return {
    generation,
    tooling,
    seal: (text) => sealer.seal(text),
    omitsThinking: thinking?.raw(fields.thinkingDisplay) === 'omitted',
  };
}

/** Notes a `max_tokens` that is larger than what the model can generate, because clients never lower it themselves. */
export function noteLimit(
  request: ChatRequest,
  { context_length: context, max_completion_tokens: most }: ModelCard,
  { notes }: Pick<ParseOptions, 'notes'>,
): void {
  const maxTokens = request.maxTokens ?? 0;
  if (maxTokens > most && most < context) notes.add('max_tokens', `lowered to ${most} (limit of the model)`);
  else if (maxTokens > context - estimatedPromptTokens(request))
    notes.add('max_tokens', `lowered to what is left of the context (${context} tokens)`);
}

function parseThinking(
  thinking: RequestBody | null,
  effort: ReasoningEffort | null,
  variables: ChatRequest['templateVariables'],
): Pick<ChatRequest, 'reasoningEffort' | 'reasoningBudget'> {
  const type = thinking?.read(fields.thinkingType);
  const tokens = thinking?.read(fields.thinkingBudget) ?? null;
  if (type === 'disabled') return { reasoningEffort: 'none', reasoningBudget: null };
  const budget = type === 'enabled' ? tokens : null;
  return {
    reasoningEffort: effort ?? (budget === null ? null : effortOf(budget)),
    reasoningBudget: parseReasoningBudget(budget, variables),
  };
}

/** Returns the effort for models that read efforts: the lowest one with that many tokens, but at least `low`. */
function effortOf(budget: number): ReasoningEffort {
  return EFFORT_BUDGETS.find(([effort, most]) => effort !== 'minimal' && budget <= most)?.[0] ?? 'high';
}

const FORMAT_FIELDS = new Set(['type', 'schema']);

function parseFormat(format: Element | null): ResponseFormat {
  if (format === null) return { type: 'text' };
  format.noteUnknown(FORMAT_FIELDS);
  if (format.get('type') !== 'json_schema') throw wrongValue(format.at('type'), '`json_schema`');
  return { type: 'json_schema', name: 'output', schema: parseStrictSchema(format), strict: true };
}
