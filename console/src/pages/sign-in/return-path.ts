/**
 * Where to go after signing in: a path of this console, or `/`. Whatever could lead elsewhere is refused: another
 * scheme or host, `//`, a backslash, and the control characters that browsers drop before they read an address.
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
  // Also once its dots are resolved: `/.//elsewhere` is `//elsewhere`.
  if (url.origin !== base || url.pathname.startsWith('//')) return '/';
  return url.pathname + url.search;
}
