import { z } from 'zod';
import { FINISH_REASONS } from '../../../generation.ts';
import { appliedLimit } from './limits.ts';
import { component, time, usd } from './schemas.ts';

const tokens = z.int();
const reasoningTokens = tokens.describe(
  'Completion tokens that are reasoning. They cost as much as other completion tokens.',
);
export const perMillion = z.string().describe('USD per million tokens, a decimal string.');

/** A row of the ledger. */
export const request = component(
  'Request',
  z.object({
    id: z.string().describe('Request ID, a UUIDv7, as in `x-request-id`.'),
    client_request_id: z.string().nullable().describe('ID that the caller sent in `x-client-request-id`.'),
    account_id: z.string(),
    key_id: z.string(),
    endpoint: z.string().describe('Protocol of the request: `chat` or `text`.'),
    model: z.string(),
    streamed: z.boolean(),
    state: z
      .enum(['open', 'settled', 'interrupted'])
      .describe('`open`: running. `interrupted`: the instance that ran it was stopped or lost.'),
    plan: z.string().describe('Plan that applied to the request.'),
    replica: z.string().nullable(),
    attempts: z
      .int()
      .describe('Number of times that the request was sent to a replica, even if the replica refused it.'),
    continued_after: tokens
      .nullable()
      .describe(
        'Completion tokens after which another replica, or the restarted engine, continued the response. Null: it was not continued.',
      ),
    started_at: time,
    slot_at: time.nullable().describe('When the request got a slot.'),
    first_token_at: time.nullable(),
    ended_at: time.nullable().describe('Null while it is running, or if unknown.'),
    prompt_tokens: tokens,
    cached_tokens: tokens.describe('Prompt tokens that were read from the prefix cache.'),
    completion_tokens: tokens,
    reasoning_tokens: reasoningTokens,
    usage_source: z
      .enum(['engine', 'estimated', 'clamped'])
      .nullable()
      .describe(
        'Source of the token counts. `clamped`: the replica reported more than the request could use; the counts were reduced to that maximum.',
      ),
    billed: z
      .boolean()
      .describe(
        'Whether the request is charged. False while it is running, if it was interrupted, or if it ended with an error other than `client_disconnected` or `invalid_api_key`.',
      ),
    price: z
      .object({ prompt: perMillion, completion: perMillion })
      .describe('Prices when the request started.'),
    cost_usd: usd,
    finish_reason: z
      .enum(FINISH_REASONS)
      .nullable()
      .describe('Finish reason of the choice that finished last; null: not completed.'),
    error_code: z
      .string()
      .nullable()
      .describe('Error code, or `client_disconnected` if the client disconnected.'),
    http_status: z.int().nullable(),
    delivered: z
      .boolean()
      .nullable()
      .describe('Whether the client was still connected at the end; null: unknown.'),
    checkpoint_at: time.nullable().describe('When its token counts were last saved before it ended.'),
  }),
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
            .enum(['prompt', 'completion', 'waived'])
            .describe('`waived` cancels the cost of a request that is not charged.'),
          tokens,
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
    requests: z.int(),
    errors: z.int().describe('Requests that ended with an error.'),
    aborted: z.int().describe('Requests whose client disconnected.'),
    interrupted: z.int(),
    prompt_tokens: tokens,
    cached_tokens: tokens,
    completion_tokens: tokens,
    reasoning_tokens: reasoningTokens,
    billed_tokens: tokens.describe('Prompt and completion tokens that are charged.'),
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
