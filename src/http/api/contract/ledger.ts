import { z } from 'zod';
import { heldLimit } from './limits.ts';
import { component, time, usd } from './schemas.ts';

const tokens = z.int();
/** A price, exact. */
export const perMillion = z.string().describe('USD per million tokens, a decimal string.');

/** A row of the ledger. */
export const request = component(
  'Request',
  z.object({
    id: z.string().describe('Ours, a UUIDv7: `x-request-id`.'),
    client_request_id: z.string().nullable().describe("The caller's own: `x-client-request-id`."),
    account_id: z.string(),
    key_id: z.string(),
    endpoint: z.enum(['chat', 'text']),
    model: z.string(),
    streamed: z.boolean(),
    state: z
      .enum(['open', 'settled', 'interrupted'])
      .describe('`open`: it runs. `interrupted`: the copy of the service that ran it died or was stopped.'),
    plan: z.string().describe('The plan it was held against.'),
    replica: z.string().nullable(),
    attempts: z.int().describe('Replicas it was given to, refusals included.'),
    started_at: time,
    slot_at: time.nullable().describe('When the engine gave it a slot.'),
    first_token_at: time.nullable(),
    ended_at: time.nullable().describe('Null while it runs, and where nobody knows.'),
    prompt_tokens: tokens,
    cached_tokens: tokens.describe('Prompt tokens that a prefix cache held.'),
    completion_tokens: tokens,
    usage_source: z
      .enum(['engine', 'estimated', 'clamped'])
      .nullable()
      .describe(
        'Who counted the tokens. `clamped`: the replica reported more than the request could use, and that most counts.',
      ),
    billed: z
      .boolean()
      .describe('Whether the caller pays, told once it has ended: not for what our fault ended.'),
    price: z.object({ prompt: perMillion, completion: perMillion }).describe('When it started.'),
    cost_usd: usd,
    finish_reason: z.string().nullable(),
    error_code: z.string().nullable().describe('Code of the error it ended with, or `hung_up`.'),
    http_status: z.int().nullable(),
    delivered: z.boolean().nullable().describe('Whether the caller was still there; null: not known.'),
    checkpoint_at: time.nullable().describe('When its counts were last written before it ended.'),
  }),
);

const milliseconds = z.int().nullable();

/** All that is known of one request. */
export const receipt = component(
  'Receipt',
  z.object({
    request,
    cost: z
      .array(
        z.object({
          what: z
            .enum(['prompt', 'completion', 'waived'])
            .describe('`waived` takes back what a fault of ours ended.'),
          tokens,
          usd_per_million: perMillion,
          usd,
        }),
      )
      .describe('How the cost came about: the lines add up to it. None while the request runs.'),
    limits: z.array(heldLimit).describe('The limits it was held against, and what it left of each.'),
    stages: z
      .object({ queue_ms: milliseconds, prefill_ms: milliseconds, decode_ms: milliseconds })
      .describe('How long each took; null: it did not come to its end, or is not known.'),
    retries: z.int().describe('How often another replica got it after one had refused it.'),
    interrupted: z.boolean().describe('Whether its counts are those of the last checkpoint.'),
  }),
);

const percentiles = z.object({ p50: z.number(), p95: z.number() }).nullable();

/** Sums over days or hours. */
export const usageRow = component(
  'UsageRow',
  z.object({
    hour: time.nullable().describe('When the hour began, in UTC. What was not asked for is null.'),
    day: z
      .string()
      .meta({ format: 'date' })
      .nullable()
      .describe('A day in UTC. What was not asked for is null.'),
    model: z.string().nullable(),
    key_id: z.string().nullable(),
    account_id: z.string().nullable(),
    requests: z.int(),
    errors: z.int().describe('Those that ended with an error.'),
    aborted: z.int().describe('Those whose caller hung up.'),
    interrupted: z.int(),
    prompt_tokens: tokens,
    cached_tokens: tokens,
    completion_tokens: tokens,
    billed_tokens: tokens.describe('Prompt and completion tokens that are paid for.'),
    cost_usd: usd,
    ttft_ms: percentiles.describe('Time to the first token, at most 2% off; null: no answer had one.'),
    tokens_per_second: percentiles.describe('After the first one, at most 2% off.'),
  }),
);
