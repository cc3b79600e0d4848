export interface Device {
  /** Such as "Firefox on Linux". */
  label: string;
  kind: 'desk' | 'phone' | 'program';
}

/** The first match counts: browsers also name the browsers they are based on. */
const BROWSERS = [
  [/\bEdgi?A?(?:OS)?\//, 'Edge'],
  [/\b(?:OPR|Opera)\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:Headless)?Chrom(?:e|ium)\/|\bCriOS\//, 'Chrome'],
  [/\bVersion\/[\d.]+.*\bSafari\//, 'Safari'],
] as const;

const SYSTEMS = [
  [/\biPad\b/, 'iPad', 'phone'],
  [/\biPhone\b/, 'iPhone', 'phone'],
  [/\bAndroid\b/, 'Android', 'phone'],
  [/\bWindows\b/, 'Windows', 'desk'],
  [/\bCrOS\b/, 'ChromeOS', 'desk'],
  [/\bMac OS X\b|\bMacintosh\b/, 'macOS', 'desk'],
  [/\bLinux\b|\bX11\b/, 'Linux', 'desk'],
] as const;

/** Parses a `user-agent`; null: not sent. */
export function deviceOf(userAgent: string | null): Device {
  if (!userAgent) return { label: 'Unknown device', kind: 'program' };
  const browser = BROWSERS.find(([pattern]) => pattern.test(userAgent))?.[1];
  const system = SYSTEMS.find(([pattern]) => pattern.test(userAgent));
  if (browser === undefined && system === undefined) {
    // Programs name themselves first: `curl/8.5.0`.
    const name = /^[\w.-]{1,40}/.exec(userAgent)?.[0];
    return { label: name ?? 'Unknown device', kind: 'program' };
  }
  const label = [browser ?? 'Unknown browser', system?.[1]].filter(Boolean).join(' on ');
  return { label, kind: system?.[2] ?? 'desk' };
}
