import type { Caller, Wish } from './books.ts';
import { LIAR_MODEL } from './configuration.ts';

/** What a replica reports instead of its usage. */
export interface Lie {
  /** The `usage` of one frame, after so many tokens of the completion. */
  report(tokens: number, frame: 'token' | 'finish' | 'total'): unknown;
  /** Where the service has the counts of the row from. */
  source: 'engine' | 'clamped' | 'estimated';
  /** The counts that are the most the request could use; the others are those of the response. */
  most?: readonly ('prompt' | 'completion')[];
  /** Whether the choice ends after the report of the whole response. */
  finishLast?: true;
}

/** What the replica counts a prompt as, unless it lies. */
const PROMPT_TOKENS = 9;

const TRILLION = 10 ** 12;

const usage = (prompt: unknown, completion: unknown, cached?: unknown) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  ...(cached === undefined ? {} : { prompt_tokens_details: { cached_tokens: cached } }),
});

export const LIES = {
  none: { report: (tokens) => usage(PROMPT_TOKENS, tokens), source: 'engine' },
  'a trillion completion tokens': {
    report: () => usage(PROMPT_TOKENS, TRILLION),
    source: 'clamped',
    most: ['completion'],
  },
  'a quadrillion prompt tokens': {
    report: (tokens) => usage(1000 * TRILLION, tokens),
    source: 'clamped',
    most: ['prompt'],
  },
  'the largest numbers': {
    report: () => usage(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    source: 'clamped',
    most: ['prompt', 'completion'],
  },
  'more cached than there is': {
    report: (tokens) => usage(PROMPT_TOKENS, tokens, TRILLION),
    source: 'engine',
  },
  'counts that fall': {
    report: (tokens, frame) =>
      usage(PROMPT_TOKENS, frame === 'token' ? tokens * 1000 : frame === 'finish' ? 1 : tokens),
    source: 'engine',
    finishLast: true,
  },
  zeros: { report: () => usage(0, 0), source: 'estimated' },
  negative: { report: () => usage(-PROMPT_TOKENS, -TRILLION), source: 'estimated' },
  fractions: { report: (tokens) => usage(PROMPT_TOKENS + 0.5, tokens + 0.5), source: 'estimated' },
  'beyond whole numbers': { report: () => usage(1e300, 1e300), source: 'estimated' },
  words: { report: () => usage('nine', 'many'), source: 'estimated' },
  'no object': { report: () => 'a lot', source: 'estimated' },
  'nothing at all': { report: () => undefined, source: 'estimated' },
} as const satisfies Record<string, Lie>;

export type LieName = keyof typeof LIES;

export const LIE_NAMES = Object.keys(LIES) as LieName[]; // Keys of a constant.

/** What a prompt asks the lying replica for. */
export interface Order {
  lie: LieName;
  /** Tokens of the completion. */
  words: number;
  wordBytes: number;
}

/** Without usage the tokens of a whole response are counted as four bytes each. */
const WORD_BYTES = 4;

/** What a template may add to a prompt in a worst case: around each message, and around all of them. */
const AROUND = { message: 16, request: 256 };

export function readOrder(prompt: string): Order {
  // Written by `orderOf`, with words before it.
  return JSON.parse(prompt.slice(prompt.indexOf('{'))) as Order;
}

export interface LieOptions {
  /** `X-Client-Request-Id`. */
  id: string;
  caller: Caller;
  copy: number;
  endpoint: Wish['endpoint'];
  streamed: boolean;
  lie: LieName;
  words: number;
  /** Left out: as many as the service estimates a token to have. */
  wordBytes?: number;
  /** Tokens that the request allows beyond those it gets. */
  spareTokens?: number;
}

/** A request to the lying replica, and what its row has to say. */
export function wishForLie(options: LieOptions): Wish {
  const {
    id,
    caller,
    copy,
    endpoint,
    streamed,
    lie,
    words,
    wordBytes = WORD_BYTES,
    spareTokens = 0,
  } = options;
  const { source, most = [] }: Lie = LIES[lie];
  const prompt = `Please ${JSON.stringify({ lie, words, wordBytes } satisfies Order)}`;
  const isChat = endpoint === 'chat';
  const promptTokens = prompt.length + AROUND.message + (isChat ? AROUND.request : 0);
  const said = source === 'estimated' ? Math.ceil(prompt.length / 4) : PROMPT_TOKENS;
  return {
    clientRequestId: id,
    caller,
    copy,
    model: LIAR_MODEL,
    endpoint,
    streamed,
    body: {
      model: LIAR_MODEL,
      ...(isChat ? { messages: [{ role: 'user', content: prompt }] } : { prompt }),
      max_tokens: words + spareTokens,
      ...(streamed ? { stream: true, stream_options: { include_usage: true } } : {}),
    },
    promptTokens,
    completionTokens: words + spareTokens,
    directive: null,
    charged: {
      source,
      prompt: most.includes('prompt') ? promptTokens : said,
      completion: words + (most.includes('completion') ? spareTokens : 0),
    },
    hangUp: null,
  };
}
