/** How long the server on a port may take to respond, in milliseconds. Long, because it may be busy. */
const RESPONSE_MS = 5000;

/** Returns whether the server at this address is Sluice, according to the title of its OpenAPI document. */
export async function isSluice(host: string, port: number): Promise<boolean> {
  try {
    const response = await fetch(`${urlOf(host, port)}/openapi.json`, {
      signal: AbortSignal.timeout(RESPONSE_MS),
    });
    const document = (await response.json()) as { info?: { title?: unknown } } | null;
    return document?.info?.title === 'Sluice';
  } catch {
    return false;
  }
}

/** Returns a URL at which this machine reaches a server that listens on `host`. */
export function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}
