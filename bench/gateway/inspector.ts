import { setTimeout as sleep } from 'node:timers/promises';

/** Reads a counter of V8 that never decreases, so that garbage collection does not hide allocations. */
const EXPRESSION = `process.getBuiltinModule('node:v8').getHeapStatistics().total_allocated_bytes`;

/**
 * Returns the bytes that the main thread of a Node process has allocated on the JavaScript heap since it started. The
 * process must have been started with `--inspect-port=<port>`; SIGUSR1 starts its inspector there. Buffers are not
 * included.
 */
export async function allocatedBytes(pid: number, port: number): Promise<number> {
  process.kill(pid, 'SIGUSR1');
  const socket = new WebSocket(await debuggerUrl(port));
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  socket.addEventListener('open', () =>
    socket.send(JSON.stringify({ id: 1, method: 'Runtime.evaluate', params: { expression: EXPRESSION } })),
  );
  socket.addEventListener('message', ({ data }) => resolve(String(data)));
  socket.addEventListener('error', () => reject(new Error(`no inspector on port ${port}`)));
  const response = await promise;
  socket.close();
  // The response of the inspector protocol for an expression that is a number.
  const { result } = JSON.parse(response) as { result: { result: { value: number } } };
  return result.result.value;
}

/** Waits until the inspector listens. */
async function debuggerUrl(port: number): Promise<string> {
  for (;;) {
    try {
      const response = await fetch(`http://127.0.0.1:${port}/json/list`);
      const [target] = (await response.json()) as { webSocketDebuggerUrl: string }[];
      if (target) return target.webSocketDebuggerUrl;
    } catch {
      // Not listening yet.
    }
    await sleep(20);
  }
}
