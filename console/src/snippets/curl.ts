import { JSON_SYNTAX, literal } from './literal.ts';

interface Call {
  method: string;
  url: string;
  /** An API key, or `$NAME` of an environment variable; null: no key is sent. */
  key: string | null;
  /** Sent as JSON; default: no body. */
  body?: unknown;
  /** Turns off output buffering for streamed responses. */
  streams?: boolean;
}

/** Formats a request as a `curl` command for Unix shells. */
export function curl({ method, url, key, body, streams = false }: Call): string {
  const usual = body === undefined ? 'GET' : 'POST';
  const parts = [
    ['curl', streams && '-N', method !== usual && `-X ${method}`, bare(url)].filter(Boolean).join(' '),
  ];
  if (key !== null) parts.push(`-H "Authorization: Bearer ${inDoubleQuotes(key)}"`);
  if (body !== undefined) {
    parts.push('-H "Content-Type: application/json"', `-d ${quoted(literal(body, JSON_SYNTAX, 1, 4))}`);
  }
  return parts.join(' \\\n  ');
}

/** Returns the name of a variable, such as `SLUICE_API_KEY` for `$SLUICE_API_KEY`; null: not a variable. */
export function variableOf(key: string): string | null {
  return /^\$([A-Za-z_]\w*)$/.exec(key)?.[1] ?? null;
}

function inDoubleQuotes(key: string): string {
  return variableOf(key) === null ? key.replaceAll(/["\\$`]/g, '\\$&') : key;
}

/** Quotes text as one shell word. Only single quotes need escaping inside single quotes. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function bare(url: string): string {
  return /^[\w:/.,@%+~-]+$/.test(url) ? url : quoted(url);
}
