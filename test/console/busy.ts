import type { OpenedService } from '../harness.ts';

/** Streams that run at once, and how many tokens each of their answers may have. */
const STREAMS = 5;
const MAX_TOKENS = 400;

/** Keeps the models that are ready busy with a few streams, so that live pages show life; until it is disposed of. */
export async function keepBusy({ service, url }: OpenedService): Promise<AsyncDisposable> {
  const { key } = await service.keys.create({ name: 'status-page' });
  const stop = new AbortController();
  // One that loads refuses at once: a stream to it would ask without end.
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
          messages: [{ role: 'user', content: 'Is everything well?' }],
        }),
        signal: stop.signal,
      });
      await answer.text();
    }
  });
  // Each ends by the signal.
  const ended = Promise.allSettled(streams);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
    },
  };
}
