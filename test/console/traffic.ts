import type { StoredModelInput } from '../../src/inference/model-input.ts';
import { DAY_MS } from '../../src/accounts/ledger/days.ts';
import { costOf } from '../../src/accounts/ledger/cost.ts';
import { picoPerToken } from '../../src/config/model.ts';
import type { OpenedRow, Settlement } from '../../src/accounts/ledger/ledger.ts';
import { CLIENT_DISCONNECTED } from '../../src/accounts/ledger/roll-ups.ts';
import type { Random } from '../support/random.ts';
import { SEED_MODELS } from './seed-models.ts';

const HOUR_MS = 3_600_000;

/** When a key is used: in European office hours, day and night, or by a nightly job. */
export type Rhythm = 'office' | 'steady' | 'nightly';

/** A key as a source of requests. */
export interface Source {
  accountId: string;
  keyId: string;
  /** Names of the programs that use it; null: not recorded. */
  clients: readonly (string | null)[];
  plan: string;
  /** Relative share of requests. */
  weight: number;
  rhythm: Rhythm;
  /** Ids of the allowed models; null: all. */
  models: readonly string[] | null;
  /** Period of use, in Unix milliseconds. */
  fromMs: number;
  toMs: number;
}

/** A request for the ledger. Interrupted requests are never settled by their instance. */
export interface SeedRequest {
  row: OpenedRow;
  ended: Settlement;
  interrupted: boolean;
}

/** An outage: no replica of the largest model for two hours, nine days ago. */
const OUTAGE = { model: 'meta-llama/Llama-3.3-70B-Instruct', daysAgo: 9, hours: 2 };

/** Generates about `count` requests from `fromMs` to `toMs`, ordered by hour but not within an hour. */
export function* traffic(
  random: Random,
  sources: readonly Source[],
  { count, fromMs, toMs }: { count: number; fromMs: number; toMs: number },
): Generator<SeedRequest> {
  const hours = Math.floor((toMs - fromMs) / HOUR_MS);
  const loads = Array.from({ length: hours }, (_, hour) => {
    const at = fromMs + hour * HOUR_MS;
    const growth = 0.75 + (0.5 * hour) / hours;
    return sources
      .filter((source) => source.fromMs <= at && at + HOUR_MS <= source.toMs)
      .map((source) => ({ source, weight: source.weight * growth * activityAt(source.rhythm, at) }));
  });
  const total = loads.flat().reduce((sum, { weight }) => sum + weight, 0);
  for (const [hour, load] of loads.entries()) {
    const weight = load.reduce((sum, one) => sum + one.weight, 0);
    const expected = (count * weight * (0.8 + 0.4 * random.fraction())) / total;
    const requests = Math.floor(expected) + Number(random.chance(expected % 1));
    for (let request = 0; request < requests; request++) {
      const startedAt = Math.floor(fromMs + (hour + random.fraction()) * HOUR_MS);
      yield seedRequest(random, random.weighted(load).source, startedAt, toMs);
    }
  }
}

/** Returns the relative activity of a key at a time; about 1 on average over a week. */
function activityAt(rhythm: Rhythm, atMs: number): number {
  const date = new Date(atMs);
  const hour = date.getUTCHours();
  const weekend = date.getUTCDay() % 6 === 0;
  switch (rhythm) {
    case 'office':
      return (0.08 + 3.4 * Math.exp(-(((hour - 12.5) / 4) ** 2))) * (weekend ? 0.15 : 1);
    case 'steady':
      return (1 + 0.55 * Math.sin(((hour - 8) / 24) * 2 * Math.PI)) * (weekend ? 0.8 : 1);
    case 'nightly':
      return hour === 2 || hour === 3 ? 11 : 0.02;
  }
}

function seedRequest(random: Random, source: Source, startedAt: number, toMs: number): SeedRequest {
  const known = SEED_MODELS.filter(({ id }) => source.models?.includes(id) ?? true);
  const model = random.weighted(known);
  const price = {
    prompt: picoPerToken(model.prompt),
    completion: picoPerToken(model.completion),
    inputCacheRead: null,
  };
  const promptTokens = Math.min(Math.round(logNormal(random, 620, 0.9)), model.contextTokens / 2);
  const wanted = Math.round(logNormal(random, 210, 0.8)) + 1;
  const maxTokens = random.pick([256, 512, 1024, 2048]);
  const outcome = randomOutcome(random, model.id, startedAt, toMs);
  const completionTokens = Math.ceil(
    Math.min(wanted, maxTokens) * (outcome === 'complete' ? 1 : random.fraction()),
  );
  const slotAt =
    startedAt + Math.round(random.chance(0.06) ? logNormal(random, 700, 0.9) : random.between(0, 4));
  const firstTokenAt = slotAt + Math.round(logNormal(random, model.ttftMs, 0.35) + promptTokens / 12);
  const decodeMs = (completionTokens / (model.speed * (0.75 + 0.5 * random.fraction()))) * 1000;
  const cachedTokens = random.chance(0.55) ? Math.floor(promptTokens * (0.2 + 0.7 * random.fraction())) : 0;
  const reasoningTokens = model.reasoning ? Math.floor(completionTokens * 0.6) : 0;
  const refused = outcome !== 'complete' && outcome !== CLIENT_DISCONNECTED && outcome !== 'interrupted';
  const isMissed = !refused && cachedTokens === 0 && promptTokens > 1000;
  const usage = refused
    ? { promptTokens: 0, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 }
    : { promptTokens, cachedTokens, completionTokens, reasoningTokens };
  const reserved = { promptTokens, cachedTokens: 0, completionTokens: maxTokens, reasoningTokens: 0 };
  return {
    interrupted: outcome === 'interrupted',
    row: {
      id: uuidAt(random, startedAt),
      clientRequestId: random.chance(0.1) ? `req-${random.between(100_000, 999_999)}` : null,
      accountId: source.accountId,
      keyId: source.keyId,
      client: random.pick(source.clients),
      endpoint: random.chance(0.93) ? 'chat' : 'text',
      model: model.id,
      streamed: random.chance(0.7),
      startedAt,
      plan: source.plan,
      limits: appliedLimits(random, source.plan),
      modelInput: promptTokens % 12 === 0 ? NOTED_INPUT : MODEL_INPUT,
      reservedTokens: promptTokens + maxTokens,
      reservedPico: costOf(reserved, price),
      pricePrompt: price.prompt,
      priceCompletion: price.completion,
      priceInputCacheRead: price.inputCacheRead,
    },
    ended: {
      usage,
      usageSource: refused ? null : 'engine',
      replica: refused ? null : `embedded:${model.id}`,
      slotAt: refused ? null : slotAt,
      firstTokenAt: refused ? null : firstTokenAt,
      endedAt: refused ? startedAt + random.between(3, 400) : Math.round(firstTokenAt + decodeMs),
      attempts: outcome === 'engine_unavailable' ? random.between(0, 2) : 1 + Number(random.chance(0.01)),
      continuedAfter: null,
      finishReason: outcome !== 'complete' ? null : wanted > maxTokens ? 'length' : 'stop',
      errorCode: outcome === 'complete' || outcome === 'interrupted' ? null : outcome,
      httpStatus: STATUS[outcome],
      cacheMiss: isMissed ? 'tools' : null,
      cacheMissTokens: isMissed ? Math.floor(promptTokens / 2) : 0,
      cacheMissAfterMs: isMissed ? 12_000 : null,
      delivered: outcome !== CLIENT_DISCONNECTED,
      billed: !refused,
    },
  };
}

/** As the ledger stores it. The same for most requests, because only receipts show it. */
const INPUT = {
  messages: { system: 1, user: 3, assistant: 2 },
  tools: 2,
  tool_choice: 'auto',
  tool_format: 'hermes',
  reasoning_effort: 'low',
  template: 'chatml',
  template_variables: { enable_thinking: true },
  max_tokens: 2048,
  sampling: { temperature: 0.6, top_p: 0.95 },
  recommended_sampling: { temperature: 0.6, top_p: 0.95, top_k: 20 },
} satisfies StoredModelInput;

const MODEL_INPUT = JSON.stringify(INPUT);
const NOTED_INPUT = JSON.stringify({
  ...INPUT,
  notes: [
    { path: 'store', what: 'ignored' },
    { path: 'tools[2]', what: 'ignored (web_search)' },
  ],
} satisfies StoredModelInput);

/** The outcomes of requests with their HTTP status. */
const STATUS = {
  complete: 200,
  [CLIENT_DISCONNECTED]: 200,
  interrupted: 200,
  engine_unavailable: 503,
  queue_full: 503,
  internal_error: 500,
  context_length_exceeded: 400,
};
type Outcome = keyof typeof STATUS;

const OUTCOMES: readonly { outcome: Outcome; weight: number }[] = [
  { outcome: 'complete', weight: 9730 },
  { outcome: CLIENT_DISCONNECTED, weight: 180 },
  { outcome: 'context_length_exceeded', weight: 40 },
  { outcome: 'queue_full', weight: 25 },
  { outcome: 'internal_error', weight: 10 },
  { outcome: 'engine_unavailable', weight: 10 },
  { outcome: 'interrupted', weight: 5 },
];

function randomOutcome(random: Random, model: string, startedAt: number, toMs: number): Outcome {
  const outageMs = startedAt - (toMs - OUTAGE.daysAgo * DAY_MS);
  const out = model === OUTAGE.model && outageMs >= 0 && outageMs < OUTAGE.hours * HOUR_MS;
  if (out && random.chance(0.7)) return 'engine_unavailable';
  return random.weighted(OUTCOMES).outcome;
}

function appliedLimits(random: Random, plan: string): string {
  const scope = 'account';
  const limits = [
    { limit: 'requestsPerMinute', bound: plan === 'scale' ? 6000 : 600 },
    { limit: 'tokensPerMinute', bound: plan === 'scale' ? 4_000_000 : 400_000 },
  ] as const;
  return JSON.stringify(
    limits.map(({ limit, bound }) => {
      return [scope, null, limit, bound, Math.floor(bound * (1 - random.fraction() / 4))];
    }),
  );
}

/** Returns a log-normally distributed number. */
function logNormal(random: Random, median: number, sigma: number): number {
  const radius = Math.sqrt(-2 * Math.log(1 - random.fraction()));
  return median * Math.exp(sigma * radius * Math.cos(2 * Math.PI * random.fraction()));
}

/** Returns a UUIDv7 of this time. */
export function uuidAt(random: Random, atMs: number): string {
  const digits = (count: number) =>
    random
      .between(0, 16 ** count - 1)
      .toString(16)
      .padStart(count, '0');
  const time = atMs.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${digits(3)}-8${digits(3)}-${digits(12)}`;
}
