import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { scripted } from '../support/scripted-engine/directive.ts';
import { chat, MODEL, scriptedYaml, startService, until, untilIdle } from '../harness.ts';

/** Requests of a round. */
const REQUESTS = 400;
const AT_ONCE = 12;

/** A leak of so many bytes per request is found. */
const LEAK_BYTES = 2048;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void; // The flag defines it.

test('thousands of requests leave no memory, timers or connections behind', async () => {
  await using service = await startService(scriptedYaml({ slots: 32 }, 'logLevel: silent\n'));
  const headers = { authorization: `Bearer ${service.key}` };

  /** The kinds of requests: whole, streamed, aborted in the stream, refused, without a key, and of another endpoint. */
  const kinds: readonly ((agent: Agent) => Promise<void>)[] = [
    (agent) => send(agent, '/v1/chat/completions', chat(scripted({ tokens: 3 }))),
    (agent) => send(agent, '/v1/chat/completions', chat(scripted({ tokens: 3 }), { stream: true })),
    (agent) => abort(agent, chat(scripted({ tokens: 1000, tokenMs: 5 }), { stream: true })),
    (agent) => send(agent, '/v1/chat/completions', chat(scripted({}), { temperature: 9 })),
    (agent) => send(agent, '/v1/messages', { model: MODEL, max_tokens: 3, messages: [] }, {}),
    (agent) => send(agent, '/v1/responses', { model: MODEL, input: scripted({ tokens: 3 }) }),
  ];

  async function open(agent: Agent, path: string, body: object, own: object = headers) {
    const sent = request(service.url + path, { method: 'POST', agent, headers: { ...own } });
    sent.on('error', () => {}).end(JSON.stringify(body));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return { sent, response };
  }

  async function send(agent: Agent, path: string, body: object, own?: object): Promise<void> {
    const { response } = await open(agent, path, body, own);
    await once(response.resume(), 'end');
  }

  async function abort(agent: Agent, body: object): Promise<void> {
    const { sent, response } = await open(agent, '/v1/chat/completions', body);
    response.on('error', () => {});
    await once(response, 'data');
    sent.destroy();
    await new Promise((resolve) => response.once('close', resolve));
  }

  /** Sends requests of all kinds, and waits until the service is idle. Returns what the process still holds. */
  async function round(): Promise<{ heapBytes: number; resources: Record<string, number> }> {
    const agent = new Agent({ keepAlive: true });
    let left = REQUESTS;
    const caller = async (): Promise<void> => {
      while (left-- > 0) await kinds[left % kinds.length]?.(agent);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, caller));
    agent.destroy();
    await untilIdle(service);
    await until(() => resources()['TCPSocketWrap'] === undefined, resources);
    collectGarbage();
    return { heapBytes: process.memoryUsage().heapUsed, resources: resources() };
  }

  // In the first rounds, caches fill and V8 compiles.
  await round();
  const rounds = [await round(), await round(), await round(), await round()];
  const grown = rounds.slice(1).map(({ heapBytes }, index) => heapBytes - (rounds[index]?.heapBytes ?? NaN));
  // Noise does not grow in every round.
  assert.ok(Math.min(...grown) < LEAK_BYTES * REQUESTS, `the heap grew by ${grown.join(', ')} bytes`);
  const counts = rounds.map(({ resources }) => Object.values(resources).reduce((sum, count) => sum + count));
  // Connections to the engine stay open.
  assert.ok((counts.at(-1) ?? NaN) <= (counts[0] ?? NaN) + AT_ONCE, JSON.stringify(rounds));
});

/** Counts what keeps the process alive, by kind. */
function resources(): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}
