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
  /** Prompts of a text completion, or inputs of an embedding; null for a chat. */
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
  sampling: samplingJson(DEFAULT_SAMPLING, false),
  recommended_sampling: {},
  notes: [],
  more_notes: 0,
};

/** Describes the request that is sent to the replicas of a model. */
export function describeInput(
  request: GenerationRequest,
  model: { card(): ModelCard | null; readonly dialects: readonly Dialect[] },
  notes: Notes,
): ModelInput {
  const { sampling } = request;
  const card = model.card();
  // Only servers of this type are not sent the parameters that the caller did not set.
  const hasDefaults = model.dialects.includes('openai');
  const kept = notes.within(MAX_NOTES_CHARACTERS);
  return {
    ...USUAL,
    ...promptFields(request, card),
    response_format: request.responseFormat.type,
    max_tokens: request.maxTokens,
    stop_sequences: request.stop.length,
    choices: request.choices,
    sampling: samplingJson(sampling, hasDefaults),
    recommended_sampling: recommendedJson(card?.recommendedSampling ?? {}),
    notes: [...kept.list],
    more_notes: kept.more,
  };
}

/** Returns what is described of only one kind of request. */
function promptFields(request: GenerationRequest, card: ModelCard | null): Partial<ModelInput> {
  switch (request.kind) {
    case 'chat': {
      const { messages, tools, toolChoice, reasoningEffort, templateVariables } = request;
      return {
        messages: countRoles(messages),
        images: imagesOf(request).map(({ file }) => file),
        reasoning_effort: reasoningEffort,
        template: card?.architecture.instruct_type ?? null,
        template_variables: describeVariables(templateVariables),
        ...(tools.length > 0 && {
          tools: tools.length,
          tool_choice: toolChoice.type,
          tool_format: card?.toolFormat ?? null,
        }),
      };
    }
    case 'text':
      return { prompts: request.prompts.length };
    case 'embedding':
      return { prompts: request.inputs.length, dimensions: request.dimensions };
  }
}

/** Formats the column of a row of the ledger. */
export function formatModelInput(input: ModelInput): string {
  const sampling = unusual(input.sampling, USUAL.sampling);
  return JSON.stringify({ ...unusual(input, USUAL), sampling } satisfies StoredModelInput);
}

/** Parses the column of a row of the ledger. */
export function readModelInput(text: string | null): ModelInput | null {
  if (text === null) return null;
  // Written by `formatModelInput`.
  const stored = parseExactJson(text) as StoredModelInput;
  return { ...USUAL, ...stored, sampling: { ...USUAL.sampling, ...stored.sampling } };
}

/** Returns the values that differ from `usual`, and those objects that are not empty. */
function unusual<T extends object>(values: T, usual: T): Partial<T> {
  const different: Partial<T> = {};
  for (const name in values) {
    const value = values[name];
    const isEmpty =
      typeof value === 'object' && value !== null && Object.values(value).every((each) => each === undefined);
    if (value !== usual[name] && !isEmpty) different[name] = value;
  }
  return different;
}

/** `hasDefaults`: the parameters that the request does not set have the defaults of the replica. */
function samplingJson(sampling: Sampling, hasDefaults: boolean): ModelInput['sampling'] {
  const numbers: Record<string, number | null> = {};
  for (const [id, { name, servers }] of SAMPLING_LIST) {
    const isDefault = hasDefaults && !sampling.explicit.has(id) && (servers?.includes('openai') ?? true);
    numbers[name] = isDefault ? null : sampling[id];
  }
  return { ...(numbers as SamplingJson), logit_bias: sampling.logitBias.size };
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
