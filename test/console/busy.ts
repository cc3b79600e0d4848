import type { OpenedService } from '../harness.ts';

/** Number of concurrent streams, and maximum tokens of each response. */
const STREAMS = 5;
const MAX_TOKENS = 400;

/** Keeps ready models busy with a few streams, for live pages, until disposed. */
export async function keepBusy({ service, url }: OpenedService): Promise<AsyncDisposable> {
  const { key } = await service.keys.create({ name: 'status-page' });
  const stop = new AbortController();
  // A loading model refuses requests immediately, so a stream to it would retry without end.
  const models = service.router
    .overview()
    .filter(({ replicas }) => replicas.some(({ state }) => state.state === 'ready'))
    .map(({ id }) => id);
  const streams = Array.from({ length: STREAMS }, async (_, stream) => {
    while (!stop.signal.aborted) {
      const answer = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key.reveal()}` },
        body: JSON.stringify({
          model: models[stream % models.length],
          stream: true,
          max_tokens: MAX_TOKENS,
          messages: [{ role: 'user', content: 'Is everything running?' }],
        }),
        signal: stop.signal,
      });
      await answer.text();
    }
  });
  // Each stream ends by the signal.
  const ended = Promise.allSettled(streams);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
    },
  };
}
