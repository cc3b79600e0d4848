import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { createKeyText } from '../src/accounts/key-format.ts';
import { whileServingOthers, type FaultContext } from './fault-context.ts';

/** Connections that send requests at the same time. */
const CONNECTIONS = 16;
/** Pipelined requests per connection, and how often each connection is opened. */
const PIPELINED = 2000;
const ROUNDS = 5;
/** Requests to each other endpoint, one after another on each connection. */
const REQUESTS = 20;

/** How much more memory an instance may occupy afterwards, in bytes. Each pipelined request occupied 20 KB. */
const MOST_GROWTH_BYTES = 300_000_000;

/** Timeout for a connection to be closed, in milliseconds. */
const LONGEST_CONNECTION_MS = 10_000;

/** What anyone can send to the console's endpoints, and the statuses with which it may be refused. */
const REQUESTS_WITHOUT_KEY = [
  ['POST', '/api/sign-in', { email: 'eve@example.com', password: 'not this one' }, [403, 429]],
  ['POST', '/api/setup/check', { token: 'a' }, [404, 429]],
  ['POST', '/api/invitations/look', { token: 'a' }, [404, 429]],
  ['POST', '/api/password/reset', { token: 'a', password: 'not this one' }, [404, 429]],
  ['POST', '/api/sign-out', undefined, [200]],
  ['GET', '/api/auth/callback/x', undefined, [303, 429]],
  ['GET', '/api/session', undefined, [200]],
] as const;

/**
 * Floods an instance with pipelined requests with unknown keys, and with requests without a key, while another account
 * must be served.
 */
export async function floodWithoutKey(context: FaultContext): Promise<void> {
  const before = residentBytes(context);
  await whileServingOthers(context, async () => {
    await Promise.all(Array.from({ length: CONNECTIONS }, () => floodConnection(context)));
  });
  const growth = residentBytes(context) - before;
  if (growth > MOST_GROWTH_BYTES) {
    const what = `requests without a key occupy ${Math.round(growth / 1e6)} MB`;
    context.report({ kind: 'unserved', what });
  }
}

async function floodConnection(context: FaultContext): Promise<void> {
  for (let round = 0; round < ROUNDS; round += 1) await pipelineUnknownKeys(context);
  const { origin } = new URL(context.testbed.instances[context.index]?.url ?? '');
  for (let n = 0; n < REQUESTS; n += 1) {
    for (const [method, path, body, accepted] of REQUESTS_WITHOUT_KEY) {
      const response = await fetch(origin + path, {
        method,
        redirect: 'manual',
        headers: { origin, cookie: `sluice.session_token=${'a'.repeat(32)}.b` },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      await response.body?.cancel();
      if ((accepted as readonly number[]).includes(response.status)) continue;
      context.report({ kind: 'unserved', what: `${method} ${path} without a key: ${response.status}` });
    }
  }
}

/** Sends many requests at once, and waits until the service has closed the connection. */
function pipelineUnknownKeys({ testbed, index, report }: FaultContext): Promise<void> {
  const { hostname, port } = new URL(testbed.instances[index]?.url ?? '');
  const { promise, resolve } = Promise.withResolvers<void>();
  const socket = connect({ host: hostname, port: Number(port) });
  socket.setTimeout(LONGEST_CONNECTION_MS, () => {
    report({ kind: 'unserved', what: 'a connection with unanswered requests was not closed' });
    socket.destroy();
  });
  let received = '';
  socket.setEncoding('latin1').on('data', (text: string) => (received += text));
  socket.on('error', () => {}); // The service closes the connection while requests are being sent.
  socket.once('close', () => {
    const statuses = new Set(received.match(/(?<=^|\})HTTP\/1\.1 \d+/gm));
    statuses.delete('HTTP/1.1 401');
    if (statuses.size > 0) report({ kind: 'unserved', what: `an unknown key: ${[...statuses].join(', ')}` });
    resolve();
  });
  const key = createKeyText().reveal();
  const request = `GET /v1/models HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  socket.write(request.repeat(PIPELINED));
  return promise;
}

/** Returns the resident memory of the affected instance. */
function residentBytes({ testbed, index }: FaultContext): number {
  const pid = testbed.instances[index]?.program.pid;
  const status = pid == null ? '' : readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024;
}
