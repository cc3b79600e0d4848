import type { LimitName } from '../../config/plan.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { CalendarWindow } from './calendar.ts';

/**
 * What a limit counts: requests, prompt and completion tokens, or cost. Over which window: `minute` is a token bucket,
 * `running` lasts from admission to the end of the request, the others are UTC calendar periods. Only these
 * combinations exist: the `x-ratelimit-*` headers have no cost, and the ledger has no daily count of billed requests.
 */
type Counted =
  | { readonly unit: 'requests' | 'tokens'; readonly window: 'minute' }
  | { readonly unit: 'requests'; readonly window: 'running' }
  | { readonly unit: 'tokens' | 'usd'; readonly window: CalendarWindow };

type Row = Counted & {
  /** The error code of requests over the limit. */
  readonly code: ErrorCode;
  /**
   * The letter of its fields in Valkey. Never change it or use it again: during an update, instances of two versions
   * share the fields. Those of the earlier version do not count a kind that they do not know.
   */
  readonly letter: string;
};

/** The kinds of limits, by their names in the configuration. */
const LIMIT_KINDS = {
  requestsPerMinute: { unit: 'requests', window: 'minute', code: 'requests_per_minute', letter: 'r' },
  tokensPerMinute: { unit: 'tokens', window: 'minute', code: 'tokens_per_minute', letter: 't' },
  requestsInFlight: { unit: 'requests', window: 'running', code: 'concurrent_requests', letter: 'f' },
  tokensPerDay: { unit: 'tokens', window: 'day', code: 'insufficient_quota', letter: 'd' },
  tokensPerMonth: { unit: 'tokens', window: 'month', code: 'insufficient_quota', letter: 'm' },
  usdPerMonth: { unit: 'usd', window: 'month', code: 'insufficient_quota', letter: 'n' },
} as const satisfies Record<LimitName, Row>;

export type LimitKind = Row & {
  readonly name: LimitName;
  /** Position in `KINDS`. */ readonly index: number;
};

export type Unit = LimitKind['unit'];

/** All kinds, in the order in which limits are checked and listed. */
// `Object.entries` returns the names as strings.
export const KINDS = (Object.entries(LIMIT_KINDS) as [LimitName, Row][]).map(
  ([name, row], index): LimitKind => ({ name, index, ...row }),
);

/** Returns the unit in which a limit counts. */
export function unitOf(name: LimitName): Unit {
  return LIMIT_KINDS[name].unit;
}

/** The kinds that are token buckets. */
export const BUCKETS = KINDS.filter(
  (kind): kind is LimitKind & { window: 'minute' } => kind.window === 'minute',
);
