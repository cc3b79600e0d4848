/** Returns the headers of a response with Anthropic's names. `limits` are the `x-ratelimit-*` headers. */
export function responseHeaders(requestId: string, limits: readonly string[]): string[] {
  const headers = ['x-request-id', requestId, 'request-id', requestId];
  for (let index = 0; index < limits.length; index += 2) {
    const name = limits[index] ?? '';
    const value = limits[index + 1] ?? '';
    headers.push(limitHeader(name), name.includes('-reset-') ? timeAfter(value) : value);
  }
  return headers;
}

/** Anthropic's names of the `x-ratelimit-*` headers, which are few. */
const names = new Map<string, string>();

/** Returns Anthropic's name of an `x-ratelimit-*` header, such as `anthropic-ratelimit-tokens-limit`. */
export function limitHeader(name: string): string {
  const known = names.get(name);
  if (known !== undefined) return known;
  const [word = '', unit = ''] = name.slice('x-ratelimit-'.length).split('-');
  const renamed = `anthropic-ratelimit-${unit}-${word}`;
  names.set(name, renamed);
  return renamed;
}

/** Returns the time after a duration such as `1h30m0s`, in the form of RFC 3339. */
function timeAfter(duration: string): string {
  let ms = 0;
  for (const [, amount, unit = ''] of duration.matchAll(/([\d.]+)(ms|[hms])/g))
    ms += Number(amount) * (UNITS_MS[unit] ?? 0);
  return new Date(Date.now() + ms).toISOString();
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
