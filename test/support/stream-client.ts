import { request } from 'node:http';

/** Arrival times of the chunks of a stream, in milliseconds of `performance.now()`. */
export interface StreamTimes {
  sentAt: number;
  chunksAt: number[];
  endedAt: number;
  /** Completion tokens, as reported by the server. */
  tokens: number;
  /** As reported by the server. */
  promptTokens: number;
}

/**
 * Sends a streaming request on a new connection (llama-server closes the connection after a stream, although it
 * announces keep-alive) and records the arrival times of its chunks. Parses as little as possible, because it shares
 * the CPU with the measured server.
 */
export function timeStream(
  url: string,
  key: string | null,
  body: object,
  onChunk: () => void = () => {},
): Promise<StreamTimes> {
  const payload = JSON.stringify({ ...body, stream: true });
  const times: StreamTimes = {
    sentAt: performance.now(),
    chunksAt: [],
    endedAt: 0,
    tokens: 0,
    promptTokens: 0,
  };
  return new Promise((resolve, reject) => {
    const headers: Record<string, string | number> = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(payload),
    };
    if (key !== null) headers.authorization = `Bearer ${key}`;
    const sent = request(url, { method: 'POST', agent: false, headers }, (response) => {
      let tail = '';
      response.setEncoding('latin1');
      response.on('data', (text: string) => {
        const now = performance.now();
        for (let at = text.indexOf('data: {'); at !== -1; at = text.indexOf('data: {', at + 7)) {
          times.chunksAt.push(now);
          onChunk();
        }
        tail = (tail + text).slice(-2000);
      });
      response.once('error', reject);
      response.once('end', () => {
        times.endedAt = performance.now();
        const last = (name: string) => [...tail.matchAll(RegExp(`"${name}":(\\d+)`, 'g'))].at(-1)?.[1];
        const counted = last('completion_tokens');
        if (response.statusCode !== 200 || counted === undefined) {
          reject(new Error(`${url} returned ${response.statusCode}: ${tail.slice(0, 300)}`));
          return;
        }
        times.tokens = Number(counted);
        times.promptTokens = Number(last('prompt_tokens') ?? 0);
        resolve(times);
      });
    });
    sent.once('error', reject);
    sent.end(payload);
  });
}
