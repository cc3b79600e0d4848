/** Tokens as the service tells them to a caller. */
export interface ToldUsage {
  prompt: number;
  completion: number;
}

/** Whose request it is; ids of the ledger. */
export interface Caller {
  account: string;
  keyId: string;
  /** The key itself. */
  key: string;
}

/** What a caller is going to ask, and when it hangs up. */
export interface Wish {
  /** `X-Client-Request-Id`: no other request of the run has it. */
  clientRequestId: string;
  caller: Caller;
  copy: number;
  model: string;
  endpoint: 'chat' | 'text';
  streamed: boolean;
  body: Record<string, unknown>;
  /** As the scripted engine counts them. */
  promptTokens: number;
  /** Of all choices together, if nothing goes wrong. */
  completionTokens: number;
  /** Of a request to the lying replica: what a whole response is charged. The counts above are then its worst case. */
  charged: Charged | null;
  /** Whether it asks the engine for a fault. */
  directive: string | null;
  hangUp: HangUp | null;
  manner?: Partial<Manner>;
}

/** The counts of a row, and where the service has them from. */
export interface Charged {
  source: 'engine' | 'clamped' | 'estimated';
  prompt: number;
  completion: number;
}

/** How a caller sends its body and reads the response, where it does not do both at once. */
interface Manner {
  /** White space added to the body, in bytes. */
  paddingBytes: number;
  /** Time between the two halves of the body, in milliseconds. */
  betweenHalvesMs: number;
  /** Time before the response is read, in milliseconds. */
  readAfterMs: number;
}

/** Tokens count those received; milliseconds those since the request was sent. */
export type HangUp = { afterTokens: number } | { afterMs: number };

/** How a request ended, for its caller. */
export type Ending =
  /** A JSON body, or `[DONE]` after a finish. */
  | { how: 'whole'; usage: ToldUsage | null }
  /** A status other than 200. */
  | { how: 'refused'; status: number; code: string }
  /** An error frame in a stream. */
  | { how: 'framed'; code: string }
  /** The connection ended, and nobody said why. */
  | { how: 'lost'; why: string }
  /** Nothing listened: the request never left. */
  | { how: 'unreached' }
  /** The caller closed the connection: as it had wished, or since it would wait no longer. */
  | { how: 'hung-up' };

/** One request in the book of its caller. */
export interface Entry {
  wish: Wish;
  /** `x-request-id`; null: no headers came. */
  requestId: string | null;
  /** Status of the answer; null: no headers came. */
  status: number | null;
  /** Completion tokens that have arrived, all choices together. */
  received: number;
  ending: Ending;
  /** Unix milliseconds. */
  sentAt: number;
  endedAt: number;
}

/** The books of all callers of a run. */
export class Books {
  readonly entries: Entry[] = [];
  /** How many requests each model had that reached a copy, and how many of them had a whole response. */
  readonly models = new Map<string, { asked: number; whole: number }>();
  readonly #counts = new Map<string, number>();

  write(entry: Entry): void {
    this.entries.push(entry);
    const { ending } = entry;
    const name =
      ending.how === 'refused' || ending.how === 'framed' ? `${ending.how} ${ending.code}` : ending.how;
    this.#counts.set(name, this.count(name) + 1);
    if (ending.how === 'unreached') return;
    const model = this.models.get(entry.wish.model) ?? { asked: 0, whole: 0 };
    this.models.set(entry.wish.model, {
      asked: model.asked + 1,
      whole: model.whole + Number(ending.how === 'whole'),
    });
  }

  /** How often callers had an answer, or a part of one. */
  get answers(): number {
    return this.count('whole') + this.count('hung-up') + this.count('lost');
  }

  /** Of one ending; those with an error code are told apart by it. */
  count(ending: string): number {
    return this.#counts.get(ending) ?? 0;
  }

  /** How often requests ended in which way, most frequent first. */
  get counts(): [ending: string, count: number][] {
    return [...this.#counts].sort(([, a], [, b]) => b - a);
  }
}
