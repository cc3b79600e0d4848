import { z } from 'zod';
import {
  REQUEST_FIELDS,
  type RequestField,
  type RequestJson,
} from '../../../accounts/ledger/request-json.ts';
import { COUNTS, type Count, type CountName } from '../../../accounts/ledger/roll-ups.ts';
import { appliedLimit } from './limits.ts';
import { component, time, usd } from './schemas.ts';

export const perMillion = z.string().describe('USD per million tokens, a decimal string.');

const KINDS = { text: z.string(), integer: z.int(), flag: z.boolean(), time, price: perMillion, pico: usd };

function fieldSchema({ kind, values, nullable, description }: RequestField): z.ZodType {
  const value = values === undefined ? KINDS[kind] : z.enum(values);
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
  z.object(Object.fromEntries(requestFields) as Shape<RequestJson>),
);

const milliseconds = z.int().nullable();

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
    stages: z
      .object({ queue_ms: milliseconds, prefill_ms: milliseconds, decode_ms: milliseconds })
      .describe('Duration of each stage; null: not completed, or unknown.'),
    retries: z.int().describe('Number of times that it was sent again after a replica failed or refused it.'),
    interrupted: z.boolean().describe('Whether the token counts are those of the last checkpoint.'),
  }),
);

// `COUNTS` has exactly these names.
const counts = Object.fromEntries(
  Object.entries<Count>(COUNTS).map(([name, { description }]) => [name, described(z.int(), description)]),
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
    ...counts,
    cost_usd: usd,
    ttft_ms: z
      .object({ p50: z.number(), p95: z.number() })
      .nullable()
      .describe('Time to first token, accurate to 2%; null: no response had a token.'),
    tokens_per_second: z
      .object({ p50: z.number(), p5: z.number().describe('5% of the responses were slower.') })
      .nullable()
      .describe(
        'Generation speed after the first token, accurate to 2%; null: no response had two tokens. Group by `model` to compare speeds, because models differ.',
      ),
  }),
);
