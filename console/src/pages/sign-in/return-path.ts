/**
 * Returns the console path to open after sign-in; `/` for anything that could lead to another site: another scheme or
 * host, `//`, backslashes, and control characters, which browsers strip from URLs.
 */
export function returnPath(wanted: string | null): string {
  if (wanted === null || !wanted.startsWith('/') || /[\\\p{Cc}]/u.test(wanted)) return '/';
  const base = 'http://console.invalid';
  let url: URL;
  try {
    url = new URL(wanted, base);
  } catch {
    return '/';
  }
  // Checked after dot segments are resolved: `/.//elsewhere` is `//elsewhere`.
  if (url.origin !== base || url.pathname.startsWith('//')) return '/';
  return url.pathname + url.search;
}
