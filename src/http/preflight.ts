import type { Exchange } from './exchange.ts';

/** Allows every origin to call `/v1`, which accepts keys and no cookies. */
export function respondToPreflight(
  { request, response, requestId }: Exchange,
  methods: readonly string[],
): void {
  const requested = request.headers['access-control-request-headers'];
  const headers = ['x-request-id', requestId, 'allow', [...methods, 'OPTIONS'].join(', ')];
  if (request.headers.origin !== undefined && request.url?.startsWith('/v1/')) {
    headers.push('access-control-allow-origin', '*', 'access-control-allow-methods', methods.join(', '));
    headers.push('access-control-max-age', '86400', 'vary', 'Access-Control-Request-Headers');
    // `*` does not cover `Authorization`.
    if (typeof requested === 'string') headers.push('access-control-allow-headers', requested);
  }
  response.writeHead(204, headers);
  response.end();
}
