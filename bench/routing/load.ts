import { Random } from '../../test/support/random.ts';

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

/** One turn of a session. */
interface Turn {
  /** Time before the turn is sent, from the end of the previous turn, in milliseconds. */
  thinkMs: number;
  question: string;
  maxTokens: number;
}

/** A conversation of an account. */
export interface Session {
  /** From 0 to `ACCOUNTS` - 1. */
  account: number;
  /** From the start of the load, in milliseconds. */
  startMs: number;
  system: string;
  turns: readonly Turn[];
}

/** A kind of load. Lengths are in words of about two tokens; bounds are included. */
export interface Mix {
  name: string;
  sessions: number;
  turns: readonly [number, number];
  systemWords: readonly [number, number];
  questionWords: readonly [number, number];
  /** Whether one account keeps `FLOOD_REQUESTS` requests open from the start to the end. */
  flood: boolean;
}

export const ACCOUNTS = 10;
/** The account that floods in mixes with a flood. It has no sessions in any mix. */
export const FLOODING_ACCOUNT = 0;
export const FLOOD_REQUESTS = 200;

const SYSTEM_PROMPTS = 20;
/** Sessions start during this time. */
const ARRIVAL_MS = 25_000;
const MEAN_THINK_MS = 1000;

export const MIXES: readonly Mix[] = [
  {
    name: 'conversations',
    sessions: 150,
    turns: [2, 12],
    systemWords: [300, 1200],
    questionWords: [20, 150],
    flood: false,
  },
  {
    name: 'single questions',
    sessions: 700,
    turns: [1, 1],
    systemWords: [300, 1200],
    questionWords: [20, 150],
    flood: false,
  },
  {
    name: 'conversations during a flood',
    sessions: 75,
    turns: [2, 6],
    systemWords: [300, 1200],
    questionWords: [20, 150],
    flood: true,
  },
];

/** Creates the sessions of a mix, always the same for a seed. Each system prompt belongs to one account. */
export function sessionsOf(mix: Mix, seed: number): Session[] {
  const random = new Random(seed).fork(mix.name);
  const prompts = Array.from({ length: SYSTEM_PROMPTS }, (_, rank) => ({
    account: 1 + (rank % (ACCOUNTS - 1)),
    text: text(random, random.between(...mix.systemWords)),
    // Zipf's law.
    weight: 1 / (rank + 1),
  }));
  return Array.from({ length: mix.sessions }, () => {
    const prompt = random.weighted(prompts);
    return {
      account: prompt.account,
      startMs: random.fraction() * ARRIVAL_MS,
      system: prompt.text,
      turns: Array.from({ length: random.between(...mix.turns) }, (_, turn) => ({
        thinkMs: turn === 0 ? 0 : -Math.log(1 - random.fraction()) * MEAN_THINK_MS,
        question: text(random, random.between(...mix.questionWords)),
        maxTokens: random.between(16, 96),
      })),
    };
  });
}

/** Creates the messages of a request that has no prefix in common with others. */
export function uniqueMessages(random: Random, words: number): ChatMessage[] {
  return [{ role: 'user', content: text(random, words) }];
}

/** Returns words of eight characters, including the space. */
function text(random: Random, words: number): string {
  return Array.from({ length: words }, () =>
    random
      .between(0, 36 ** 7 - 1)
      .toString(36)
      .padStart(7, '0'),
  ).join(' ');
}
