import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../../test/support/random.ts';
import { FLOODING_ACCOUNT, FLOOD_REQUESTS, uniqueMessages, type ChatMessage, type Session } from './load.ts';

/** A router under test, as its callers see it. */
export interface Target {
  url: string;
  /** The API key of each account, or null if the router has no accounts. */
  keys: readonly string[] | null;
}

/** The result of one request. */
export interface Answer {
  /** Time to the first text, in milliseconds. */
  firstMs: number;
  text: string;
}

const agent = new Agent({ keepAlive: true, maxSockets: Infinity });

/** Sends one streaming request. Rejects if the response is an error or ends early. */
export function ask(
  { url, keys }: Target,
  account: number,
  messages: readonly ChatMessage[],
  maxTokens: number,
  signal?: AbortSignal,
): Promise<Answer> {
  const body = JSON.stringify({
    model: 'bench/model',
    messages,
    max_tokens: maxTokens,
    stream: true,
  });
  const headers: Record<string, string | number> = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  };
  if (keys !== null) headers.authorization = `Bearer ${keys[account]}`;
  const sentAt = performance.now();
  let firstMs = NaN;
  return new Promise((resolve, reject) => {
    const options = { method: 'POST', agent, headers, ...(signal && { signal }) };
    const sent = request(`${url}/v1/chat/completions`, options, (response) => {
      let received = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        received += part;
        if (Number.isNaN(firstMs) && CONTENT.test(received)) firstMs = performance.now() - sentAt;
      });
      response.once('error', reject);
      response.once('end', () => {
        if (response.statusCode === 200 && received.includes('data: [DONE]')) {
          resolve({ firstMs, text: contentOf(received) });
        } else reject(new Error(`status ${response.statusCode}: ${received.slice(-300)}`));
      });
    });
    sent.once('error', reject);
    sent.end(body);
  });
}

const CONTENT = /"content":"[^"]/;

function contentOf(stream: string): string {
  return stream
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice('data: '.length)) as StreamChunk)
    .map(({ choices }) => choices[0]?.delta.content ?? '')
    .join('');
}

/** The part of a chunk in OpenAI's format that is used. */
interface StreamChunk {
  choices: readonly { delta: { content?: string | null } }[];
}

/** The requests of a load. */
export interface LoadResult {
  /** Times to the first text, in milliseconds, without those of the flood. */
  firstMs: number[];
  /** From the start of the first session to the end of the last one, in milliseconds. */
  totalMs: number;
  /** Failed requests, without those of the flood. A failed request ends its session. */
  failures: number;
  /** Requests of the flood that were completed. */
  flooded: number;
}

/** Runs all sessions to their ends. */
export async function runSessions(
  target: Target,
  sessions: readonly Session[],
  flood: boolean,
): Promise<LoadResult> {
  const result: LoadResult = { firstMs: [], totalMs: NaN, failures: 0, flooded: 0 };
  const flooding = flood ? startFlood(target) : null;
  const startedAt = performance.now();
  await Promise.all(sessions.map((session) => runSession(target, session, result)));
  result.totalMs = performance.now() - startedAt;
  result.flooded = (await flooding?.stop())?.length ?? 0;
  return result;
}

async function runSession(target: Target, session: Session, result: LoadResult): Promise<void> {
  await sleep(session.startMs);
  const messages: ChatMessage[] = [{ role: 'system', content: session.system }];
  for (const { thinkMs, question, maxTokens } of session.turns) {
    await sleep(thinkMs);
    messages.push({ role: 'user', content: question });
    try {
      const { firstMs, text } = await ask(target, session.account, messages, maxTokens);
      result.firstMs.push(firstMs);
      messages.push({ role: 'assistant', content: text });
    } catch (error) {
      result.failures++;
      if (result.failures === 1) console.error(`    first failure: ${String(error)}`);
      return;
    }
  }
}

/**
 * Keeps `FLOOD_REQUESTS` requests of one account open until it is stopped. `stop` resolves with the times from the first to the
 * last text of the completed ones, in milliseconds.
 */
export function startFlood(target: Target): { stop(): Promise<readonly number[]> } {
  const random = new Random(2);
  const stopped = new AbortController();
  const durationsMs: number[] = [];
  const caller = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      const messages = uniqueMessages(random, 200);
      const startMs = performance.now();
      try {
        const { firstMs } = await ask(target, FLOODING_ACCOUNT, messages, 64, stopped.signal);
        durationsMs.push(performance.now() - startMs - firstMs);
      } catch {
        // Refused or stopped.
        await sleep(100);
      }
    }
  };
  const callers = Promise.all(Array.from({ length: FLOOD_REQUESTS }, caller));
  return {
    async stop() {
      stopped.abort();
      await callers;
      return durationsMs;
    },
  };
}
