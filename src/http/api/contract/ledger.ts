import { z } from 'zod';
import {
  REQUEST_FIELDS,
  type RequestField,
  type RequestJson,
} from '../../../accounts/ledger/request-json.ts';
import { IMAGE_FORMATS, REASONING_EFFORTS } from '../../../core/generation.ts';
import { SAMPLING_LIST, type SamplingJson } from '../../../core/sampling.ts';
import { COUNTS, type Sum, type CountName } from '../../../accounts/ledger/roll-ups.ts';
import { appliedLimit } from './limits.ts';
import { component, ownerNames, prefillProgress, recommendedSampling, time, usd } from './schemas.ts';

export const perMillion = z.string().describe('USD per million tokens, a decimal string.');

const KINDS = { integer: z.int(), flag: z.boolean(), time, price: perMillion, pico: usd };

function fieldSchema({ kind, values, nullable, description }: RequestField): z.ZodType {
  const text = values === undefined ? z.string() : z.enum(values);
  const value = kind === 'names' ? z.array(text) : kind === 'text' ? text : KINDS[kind];
  return described(nullable ? value.nullable() : value, description);
}

function described(schema: z.ZodType, description: string | undefined): z.ZodType {
  return description === undefined ? schema : schema.describe(description);
}

const requestFields = [...Map.groupBy(REQUEST_FIELDS, ({ field }) => field)].map(([field, parts]) => {
  const [first] = parts;
  if (first?.part === undefined) return [field, ...parts.map(fieldSchema)];
  // The description of the first part is that of the object.
  const schemas = parts.map((each) => [
    each.part,
    fieldSchema(each === first ? { ...each, description: undefined } : each),
  ]);
  return [field, described(z.object(Object.fromEntries(schemas)), first.description)];
});

type Shape<Json> = { [Field in keyof Json]: z.ZodType<Json[Field], Json[Field]> };

/** A row of the ledger. */
export const request = component(
  'Request',
  // `RequestJson` follows from the same table.
  z.object({ ...(Object.fromEntries(requestFields) as Shape<RequestJson>), ...ownerNames }),
);

const milliseconds = z.int().nullable();

const count = z.int().min(0);

/** Null is the default of a replica of the dialect `openai`, or of its server if there is no other. */
const samplingNumbers = Object.fromEntries(
  SAMPLING_LIST.map(([, { name, fallback, servers }]) => {
    const hasDefault = fallback !== null && servers?.includes('openai') === false;
    const schema: z.ZodType<number | null, number | null> = hasDefault ? z.number() : z.number().nullable();
    return [name, schema];
  }),
) as Record<keyof SamplingJson, z.ZodType<number | null, number | null>>;

/** What the model was given, without its text. */
const modelInput = component(
  'ModelInput',
  z.object({
    messages: z
      .partialRecord(z.enum(['system', 'user', 'assistant', 'tool']), count)
      .nullable()
      .describe('Number of messages by role. Null for a text completion.'),
    prompts: count
      .nullable()
      .describe(
        'Number of prompts of a text completion, of inputs of an embedding, or of documents to rank. Null for a chat.',
      ),
    dimensions: count
      .nullable()
      .describe('The length of vectors that was asked for. Null: that of the model, or no embedding.'),
    images: z
      .array(
        z
          .object({
            format: z.enum(IMAGE_FORMATS),
            bytes: count,
            width: count.describe('In pixels.'),
            height: count.describe('In pixels.'),
          })
          .nullable(),
      )
      .describe(
        'The images, in order. Null: an image with a URL, which only the server of the model has seen.',
      ),
    tools: count.describe('Number of functions that the model could call.'),
    tool_choice: z.enum(['auto', 'none', 'required', 'function', 'allowed']).nullable(),
    tool_format: z
      .string()
      .nullable()
      .describe('Format in which the model writes calls, such as `hermes`. Null: no tools, or unknown.'),
    response_format: z.enum(['text', 'json_object', 'json_schema']),
    reasoning_effort: z.enum(REASONING_EFFORTS).nullable(),
    template: z
      .string()
      .nullable()
      .describe('Type of the chat template, as in the list of models. Null: none, or unknown.'),
    template_variables: z
      .record(z.string(), z.union([z.number(), z.boolean()]).nullable())
      .describe(
        'Variables for the chat template, at most 16. Values other than numbers and booleans are null.',
      ),
    max_tokens: count.nullable().describe('Null: limited only by the model and its context.'),
    stop_sequences: count,
    choices: count,
    sampling: z
      .object({
        ...samplingNumbers,
        logit_bias: count.describe('Number of tokens with a bias.'),
      })
      .describe('Sampling that applied. Null: the default of the replica; for `seed`, a random one.'),
    recommended_sampling: recommendedSampling.describe(
      'Sampling that the model recommends. It applies to the parameters that the request did not set, unless `samplingDefaults` of the model is `api`.',
    ),
    notes: z
      .array(z.object({ path: z.string(), what: z.string() }))
      .describe('What of the request had no effect, or was changed, as in the header `x-sluice-notes`.'),
    more_notes: count.describe('Number of further notes.'),
  }),
);

export const receipt = component(
  'Receipt',
  z.object({
    request,
    cost: z
      .array(
        z.object({
          what: z
            .enum(['prompt', 'input_cache_read', 'completion', 'waived'])
            .describe(
              '`input_cache_read`: cached prompt tokens, if they have a price of their own; `prompt` is then the rest of the prompt. `waived` cancels the cost of a request that is not charged.',
            ),
          tokens: z.int(),
          usd_per_million: perMillion,
          usd,
        }),
      )
      .describe('Cost breakdown. Empty while the request is running.'),
    limits: z.array(appliedLimit).describe('Limits that applied, and how much remained of each.'),
    model_input: modelInput
      .nullable()
      .describe(
        'What the model was given, without its text. Null: the request was recorded by an earlier version.',
      ),
    cache_miss: z
      .string()
      .nullable()
      .describe(
        'Why prompt tokens were computed again that an earlier request of the account had sent, as a sentence. Null: none were, or unknown.',
      ),
    stages: z
      .object({ queue_ms: milliseconds, prefill_ms: milliseconds, decode_ms: milliseconds })
      .describe('Duration of each stage; null: not completed, or unknown.'),
    prefill: prefillProgress.describe(
      'Progress of the prompt of a request that runs in this instance, if the prompt takes more than a second; null: none, or not reported.',
    ),
    retries: z.int().describe('Number of times that it was sent again after a replica failed or refused it.'),
    interrupted: z.boolean().describe('Whether the token counts are those of the last checkpoint.'),
  }),
);

// `COUNTS` has exactly these names.
const counts = Object.fromEntries(
  Object.entries<Sum>(COUNTS).map(([name, { description }]) => [name, described(z.int(), description)]),
) as Record<CountName, z.ZodType<number, number>>;

/** Usage of an hour, a day or the whole period. */
export const usageRow = component(
  'UsageRow',
  z.object({
    hour: time.nullable().describe('Start of the hour, in UTC. Null unless requested in `by`.'),
    day: z
      .string()
      .meta({ format: 'date' })
      .nullable()
      .describe('Day in UTC. Null unless requested in `by`.'),
    model: z.string().nullable(),
    key_id: z.string().nullable(),
    account_id: z.string().nullable(),
    ...ownerNames,
    client: z
      .string()
      .nullable()
      .describe(
        'Program that sent the requests. Null unless requested in `by`, and for requests that an earlier version recorded.',
      ),
    member_id: z
      .string()
      .nullable()
      .describe(
        'User who created the key. Null unless requested in `by`, if no user created it, and for deleted playground keys.',
      ),
    member_name: z.string().nullable().describe('Name of the user; null also if the user was deleted.'),
    tag: z
      .string()
      .nullable()
      .describe(
        'Tag that the key has now. Usage of a key with several tags is in the row of each. Null unless requested in `by`, and for keys without tags.',
      ),
    ...counts,
    cost_usd: usd,
    ttft_ms: z
      .object({ p50: z.number(), p95: z.number() })
      .nullable()
      .describe(
        'Time to first token, accurate to 2%; null: no response had a token, or the query is by client, member or tag.',
      ),
    tokens_per_second: z
      .object({ p50: z.number(), p5: z.number().describe('5% of the responses were slower.') })
      .nullable()
      .describe(
        'Generation speed after the first token, accurate to 2%; null: no response had two tokens, or the query is by client, member or tag. Group by `model` to compare speeds, because models differ.',
      ),
  }),
);
