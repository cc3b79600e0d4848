import { request } from 'node:http';

/** When each chunk with text of one streamed answer came, in `performance.now()` milliseconds. */
export interface StreamTimes {
  sentAt: number;
  chunksAt: number[];
  endedAt: number;
  /** Completion tokens as the server counted them. */
  tokens: number;
}

/**
 * Sends one streaming request on a connection of its own (llama-server closes its after a stream, although it says
 * that it keeps it) and notes when its chunks come. It looks at no more of each chunk than it must, since it shares
 * the machine with what is measured.
 */
export function timeStream(
  url: string,
  key: string | null,
  body: object,
  onChunk: () => void = () => {},
): Promise<StreamTimes> {
  const payload = JSON.stringify({ ...body, stream: true });
  const times: StreamTimes = { sentAt: performance.now(), chunksAt: [], endedAt: 0, tokens: 0 };
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
        const counted = [...tail.matchAll(/"completion_tokens":(\d+)/g)].at(-1)?.[1];
        if (response.statusCode !== 200 || counted === undefined) {
          reject(new Error(`${url} answered ${response.statusCode}: ${tail.slice(0, 300)}`));
          return;
        }
        times.tokens = Number(counted);
        resolve(times);
      });
    });
    sent.once('error', reject);
    sent.end(payload);
  });
}
