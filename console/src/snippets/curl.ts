import { JSON_SYNTAX, literal } from './literal.ts';

interface Call {
  method: string;
  url: string;
  /** An API key, or `$NAME` of the environment variable that holds it; null: none is sent. */
  key: string | null;
  /** Sent as JSON; left out: there is none. */
  body?: unknown;
  /** The answer comes bit by bit: curl is told to show each as it comes. */
  streams?: boolean;
}

/** A call as a command of `curl` for the shells of Unix. */
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

/** Name of the environment variable that stands for a key, such as `SLUICE_API_KEY` of `$SLUICE_API_KEY`. */
export function variableOf(key: string): string | null {
  return /^\$([A-Za-z_]\w*)$/.exec(key)?.[1] ?? null;
}

function inDoubleQuotes(key: string): string {
  return variableOf(key) === null ? key.replaceAll(/["\\$`]/g, '\\$&') : key;
}

/** As one word of the shell. Within single quotes nothing has a meaning but the quote that ends them. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function bare(url: string): string {
  return /^[\w:/.,@%+~-]+$/.test(url) ? url : quoted(url);
}
