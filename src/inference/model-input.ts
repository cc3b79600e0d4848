import { parseExactJson } from '../json/exact-json.ts';
import {
  type Dialect,
  imagesOf,
  type GenerationRequest,
  type ImageFile,
  type ModelCard,
  type ReasoningEffort,
  type ResponseFormat,
  type Role,
  type ToolChoice,
} from '../core/generation.ts';
import {
  DEFAULT_SAMPLING,
  recommendedJson,
  SAMPLING_LIST,
  type RecommendedSamplingJson,
  type Sampling,
  type SamplingJson,
} from '../core/sampling.ts';
import type { Note, Notes } from '../core/notes.ts';

/** Maximum size of the notes in a row of the ledger, in characters. Further ones are only counted. */
const MAX_NOTES_CHARACTERS = 4096;

/** Maximum number of template variables, and length of their names, in a row of the ledger. */
const MAX_VARIABLES = 16;
const MAX_NAME_CHARACTERS = 64;

/**
 * What the model was given, without its text. This is the JSON of receipts. The counts of tokens are in the row.
 */
export interface ModelInput {
  /** Messages by role; null for a text completion. */
  messages: Partial<Record<Role, number>> | null;
  /** Prompts of a text completion, inputs of an embedding, or documents to rank; null for a chat. */
  prompts: number | null;
  /** The length of the vectors that was asked for. Null: that of the model, or no embedding. */
  dimensions: number | null;
  /** The images of a chat, in order. Null: one with a URL, which only the server of the model has seen. */
  images: (ImageFile | null)[];
  tools: number;
  tool_choice: ToolChoice['type'] | null;
  /** The format in which the model writes calls. Null: without tools, or unknown. */
  tool_format: string | null;
  response_format: ResponseFormat['type'];
  reasoning_effort: ReasoningEffort | null;
  /** The type of the chat template. Null: none, or unknown. */
  template: string | null;
  /** The variables for the template, with those values that are not text. */
  template_variables: Readonly<Record<string, number | boolean | null>>;
  /** Null: limited only by the model and its context. */
  max_tokens: number | null;
  stop_sequences: number;
  choices: number;
  /** Null: the default of the replica. */
  sampling: SamplingJson & { logit_bias: number };
  /** What the publisher of the model recommends. */
  recommended_sampling: RecommendedSamplingJson;
  /** What of the request had no effect, or was changed. */
  notes: Note[];
  /** Number of further notes. */
  more_notes: number;
}

/** The JSON of the ledger: only what is unusual, because the ledger has a row per request. */
export type StoredModelInput = Partial<Omit<ModelInput, 'sampling'>> & {
  sampling: Partial<ModelInput['sampling']>;
};

/** What most requests have. It is not stored. */
const USUAL: ModelInput = {
  messages: null,
  prompts: null,
  dimensions: null,
  images: [],
  tools: 0,
  tool_choice: null,
  tool_format: null,
  response_format: 'text',
  reasoning_effort: null,
  template: null,
  template_variables: {},
  max_tokens: null,
  stop_sequences: 0,
  choices: 1,
  sampling: {
    ...(Object.fromEntries(
      SAMPLING_LIST.map(([id, { name }]) => [name, DEFAULT_SAMPLING[id]]),
    ) as SamplingJson),
    logit_bias: 0,
  },
  recommended_sampling: {},
  notes: [],
  more_notes: 0,
};

/** The JSON as it is written: it leaves out what is undefined. */
type Written<T> = { [K in keyof T]?: T[K] | undefined };

/** Describes the request that is sent to the replicas of a model, for the column of a row of the ledger. */
export function describeInput(
  request: GenerationRequest,
  model: { card(): ModelCard | null; readonly dialects: readonly Dialect[] },
  notes: Notes,
): string {
  const { sampling } = request;
  const card = model.card();
  const kept = notes.count === 0 ? undefined : notes.within(MAX_NOTES_CHARACTERS);
  const recommended = card && filled(card.recommendedSampling);
  // Only servers of this type are not sent the parameters that the caller did not set.
  const hasDefaults = model.dialects.includes('openai');
  return JSON.stringify({
    ...promptFields(request, card),
    response_format: unusual(request.responseFormat.type, 'text'),
    max_tokens: request.maxTokens ?? undefined,
    stop_sequences: unusual(request.stop.length, 0),
    choices: unusual(request.choices, 1),
    sampling: samplingFields(sampling, hasDefaults),
    recommended_sampling: recommended ? recommendedJson(recommended) : undefined,
    notes: kept && filled([...kept.list]),
    more_notes: kept && unusual(kept.more, 0),
  } satisfies Written<Omit<ModelInput, 'sampling'>> & { sampling: object });
}

/** Returns what is described of only one kind of request. */
function promptFields(request: GenerationRequest, card: ModelCard | null): Written<ModelInput> {
  switch (request.kind) {
    case 'chat': {
      const { messages, tools, toolChoice, reasoningEffort, templateVariables } = request;
      return {
        messages: countRoles(messages),
        images: filled(imagesOf(request).map(({ file }) => file)),
        tools: unusual(tools.length, 0),
        tool_choice: tools.length === 0 ? undefined : toolChoice.type,
        tool_format: tools.length === 0 ? undefined : (card?.toolFormat ?? undefined),
        reasoning_effort: reasoningEffort ?? undefined,
        template: card?.architecture.instruct_type ?? undefined,
        template_variables: filled(templateVariables) && describeVariables(templateVariables),
      };
    }
    case 'text':
      return { prompts: request.prompts.length };
    case 'embedding':
      return { prompts: request.inputs.length, dimensions: request.dimensions ?? undefined };
    case 'rerank':
      return { prompts: request.documents.length };
  }
}

/** Returns undefined for the usual value. */
function unusual<T>(value: T, usual: T): T | undefined {
  return value === usual ? undefined : value;
}

/** Returns undefined for an object or a list without values. */
function filled<T extends object>(values: T): T | undefined {
  for (const name in values) if (values[name] !== undefined) return values;
  return undefined;
}

/** Parses the column of a row of the ledger. */
export function readModelInput(text: string | null): ModelInput | null {
  if (text === null) return null;
  // Written by `describeInput`.
  const stored = parseExactJson(text) as StoredModelInput;
  return { ...USUAL, ...stored, sampling: { ...USUAL.sampling, ...stored.sampling } };
}

/** Returns the unusual parameters. `hasDefaults`: those that the request does not set have the defaults of the replica. */
function samplingFields(sampling: Sampling, hasDefaults: boolean): Partial<ModelInput['sampling']> {
  const fields: Record<string, number | null> = {};
  for (const [id, { name, servers }] of SAMPLING_LIST) {
    const isDefault = hasDefaults && !sampling.explicit.has(id) && (servers?.includes('openai') ?? true);
    const value = isDefault ? null : sampling[id];
    if (value !== DEFAULT_SAMPLING[id]) fields[name] = value;
  }
  if (sampling.logitBias.size > 0) fields['logit_bias'] = sampling.logitBias.size;
  return fields;
}

function countRoles(messages: readonly { role: Role }[]): Partial<Record<Role, number>> {
  const counts: Partial<Record<Role, number>> = {};
  for (const { role } of messages) counts[role] = (counts[role] ?? 0) + 1;
  return counts;
}

function describeVariables(variables: Readonly<Record<string, unknown>>): ModelInput['template_variables'] {
  return Object.fromEntries(
    Object.entries(variables)
      .slice(0, MAX_VARIABLES)
      .map(([name, value]) => [
        name.slice(0, MAX_NAME_CHARACTERS).toWellFormed(),
        typeof value === 'number' || typeof value === 'boolean' ? value : null,
      ]),
  );
}
