/** Token counts from a response. */
export interface ReportedUsage {
  prompt: number;
  completion: number;
}

/** A key and its IDs in the ledger. */
export interface CallerKey {
  account: string;
  keyId: string;
  key: string;
  /** The plan of the account. */
  plan: string;
}

/** A request, and its expected row in the ledger. */
export interface TortureRequest {
  /** A unique `X-Client-Request-Id`. */
  clientRequestId: string;
  caller: CallerKey;
  instance: number;
  model: string;
  endpoint: 'chat' | 'text';
  streamed: boolean;
  body: Record<string, unknown>;
  /** As counted by the scripted engine. */
  promptTokens: number;
  /** Over all choices, if the request completes. */
  completionTokens: number;
  /** For the replica with false usage: the counts of a complete response. The counts above are the worst case. */
  expectedUsage: ExpectedUsage | null;
  /** The fault that the request causes in the engine; null: none. */
  directive: string | null;
  disconnect: DisconnectPoint | null;
  pacing?: Partial<Pacing>;
}

/** The expected counts of a row and their source. */
export interface ExpectedUsage {
  source: 'engine' | 'clamped' | 'estimated';
  prompt: number;
  completion: number;
}

/** Delays of a slow client. */
interface Pacing {
  /** White space added to the body, in bytes. */
  paddingBytes: number;
  /** Pause between the two halves of the body, in milliseconds. */
  betweenHalvesMs: number;
  /** Delay before the response is read, in milliseconds. */
  readAfterMs: number;
}

/** When the client disconnects: after received tokens, or milliseconds since the request was sent. */
export type DisconnectPoint = { afterTokens: number } | { afterMs: number };

/** How a request ended for its caller. */
export type ResponseOutcome =
  /** A JSON body, or `[DONE]` after all finish reasons. */
  | { kind: 'complete'; usage: ReportedUsage | null }
  /** A status other than 200. */
  | { kind: 'refused'; status: number; code: string }
  /** An error frame in a stream. */
  | { kind: 'stream-error'; code: string }
  /** The connection ended without an error. */
  | { kind: 'connection-lost'; reason: string }
  /** The connection was refused. */
  | { kind: 'not-sent' }
  /** The caller closed the connection, as planned or after its timeout. */
  | { kind: 'aborted' };

/** A request and its result, as seen by the caller. */
export interface RequestRecord {
  request: TortureRequest;
  /** `x-request-id`; null: no headers were received. */
  requestId: string | null;
  /** HTTP status; null: no headers were received. */
  status: number | null;
  /** Completion tokens received, over all choices. */
  received: number;
  outcome: ResponseOutcome;
  /** Unix milliseconds. */
  sentAt: number;
  endedAt: number;
}

/** The records of all callers of a run. */
export class CallerLog {
  readonly records: RequestRecord[] = [];
  /** The number of requests that reached an instance, and of complete responses, by model. */
  readonly models = new Map<string, { requests: number; complete: number }>();
  readonly #counts = new Map<string, number>();

  add(record: RequestRecord): void {
    this.records.push(record);
    const { outcome } = record;
    const name =
      outcome.kind === 'refused' || outcome.kind === 'stream-error'
        ? `${outcome.kind} ${outcome.code}`
        : outcome.kind;
    this.#counts.set(name, this.count(name) + 1);
    if (outcome.kind === 'not-sent') return;
    const model = this.models.get(record.request.model) ?? { requests: 0, complete: 0 };
    this.models.set(record.request.model, {
      requests: model.requests + 1,
      complete: model.complete + Number(outcome.kind === 'complete'),
    });
  }

  /** The number of complete and partial responses. */
  get responses(): number {
    return this.count('complete') + this.count('aborted') + this.count('connection-lost');
  }

  /** Returns the number of requests with this outcome, which includes the error code. */
  count(outcome: string): number {
    return this.#counts.get(outcome) ?? 0;
  }

  /** The number of requests by outcome, most frequent first. */
  get counts(): [outcome: string, count: number][] {
    return [...this.#counts].sort(([, a], [, b]) => b - a);
  }
}
