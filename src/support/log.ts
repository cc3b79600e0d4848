import { inspect } from 'node:util';
import { pino } from 'pino';

/** The fields of a log line. The type excludes `Secret`. */
export type LogFields = Readonly<
  Record<string, string | number | bigint | boolean | null | undefined | Error | readonly string[]>
>;

/** Writes JSON lines with a level, a time in Unix milliseconds, a message and fields. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Returns a log that adds these fields to every line. */
  with(fields: LogFields): Log;
}

export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'silent';

/** Lines of a lower severity than the log's level are not written. */
const SEVERITY: Readonly<Record<LogLevel, number>> = {
  debug: 0,
  info: 1,
  warn: 2,
  error: 3,
  fatal: 4,
  silent: 5,
};

/** Maximum length of a text, in characters. */
const MAX_TEXT = 4096;

/**
 * Lines are batched until they reach this length, in characters, or this age. Writing each line separately would take
 * 10% of the cost of a request.
 */
const BATCH_LENGTH = 8192;
const BATCH_MS = 250;

/** Maximum length of the lines that are kept while they cannot be written, in bytes. Later lines are lost. */
const MAX_UNWRITTEN = 1_048_576;

/** Destination of log lines. `flush` writes batched lines immediately. */
export interface LogDestination {
  write(line: string): void;
  flush?(): void;
}

/** Opens the log on standard error, or on `destination`. Warnings and errors are written immediately. */
export function openLog(level: LogLevel, destination: LogDestination = standardError()): Log {
  return new LineLog(SEVERITY[level], destination, '');
}

/**
 * Batches lines for standard error. Pino's destination waits for a slow reader and ignores a closed pipe. Its own
 * buffering is not used, because it concatenates the whole batch again for each line.
 */
function standardError(): LogDestination {
  const stream = pino.destination({ fd: 2, sync: true, maxLength: MAX_UNWRITTEN });
  // If the log is a file on a full disk, the service continues, and each later line tries again.
  stream.on('error', () => {});
  let lines: string[] = [];
  let length = 0;
  const flush = (): void => {
    if (lines.length === 0) return;
    stream.write(lines.join(''));
    lines = [];
    length = 0;
  };
  setInterval(flush, BATCH_MS).unref();
  process.once('exit', flush);
  return {
    write(line) {
      lines.push(line);
      length += line.length;
      if (length >= BATCH_LENGTH) flush();
    },
    flush,
  };
}

/** Parses a line that `openLog` wrote. Returns null for any other text. */
export function logLineOf(
  line: string,
): { level: 'debug' | 'info' | 'warn' | 'error'; message: string; fields: LogFields } | null {
  try {
    const { level, time: _, message, ...fields } = JSON.parse(line);
    if (typeof message !== 'string') return null;
    if (level !== 'debug' && level !== 'info' && level !== 'warn' && level !== 'error') return null;
    return { level, message, fields };
  } catch {
    return null;
  }
}

/** A log that writes nothing. */
export const SILENT: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  with: () => SILENT,
};

class LineLog implements Log {
  readonly #threshold: number;
  readonly #destination: LogDestination;
  /** The JSON of the fields of every line. */
  readonly #common: string;

  constructor(threshold: number, destination: LogDestination, common: string) {
    this.#threshold = threshold;
    this.#destination = destination;
    this.#common = common;
  }

  debug(message: string, fields?: LogFields): void {
    this.#write('debug', message, fields);
  }

  info(message: string, fields?: LogFields): void {
    this.#write('info', message, fields);
  }

  warn(message: string, fields?: LogFields): void {
    this.#write('warn', message, fields);
    this.#destination.flush?.();
  }

  error(message: string, fields?: LogFields): void {
    this.#write('error', message, fields);
    this.#destination.flush?.();
  }

  with(fields: LogFields): Log {
    return new LineLog(this.#threshold, this.#destination, this.#common + members(fields));
  }

  #write(level: LogLevel, message: string, fields?: LogFields): void {
    if (SEVERITY[level] < this.#threshold) return;
    const start = `{"level":"${level}","time":${Date.now()}${this.#common}${fields ? members(fields) : ''}`;
    this.#destination.write(`${start},"message":${JSON.stringify(truncate(message))}}\n`);
  }
}

/** Returns the fields as JSON object members, each after a comma. */
function members(fields: LogFields): string {
  const json = JSON.stringify(serialize(fields));
  return json === '{}' ? '' : `,${json.slice(1, -1)}`;
}

function serialize(fields: LogFields): LogFields | Record<string, unknown> {
  // Usually, no field needs conversion. Copying the fields is a large part of the cost of a line.
  if (!hasConversion(fields)) return fields;
  const out: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value instanceof Error) out[name] = describe(value);
    else if (typeof value === 'string') out[name] = truncate(value);
    else if (typeof value === 'bigint') out[name] = value.toString();
    else out[name] = value;
  }
  return out;
}

function hasConversion(fields: LogFields): boolean {
  for (const name in fields) if (needsConversion(fields[name])) return true;
  return false;
}

function needsConversion(value: LogFields[string]): boolean {
  if (typeof value === 'string') return value.length > MAX_TEXT;
  return typeof value === 'bigint' || value instanceof Error;
}

/** Returns the stack of an error and of its causes, to a depth of four. */
function describe(error: Error, depth = 0): string {
  const own = error.stack ?? `${error.name}: ${error.message}`;
  const cause = error.cause;
  if (cause === undefined || depth >= 4) return truncate(own);
  return truncate(
    `${own}\ncaused by ${cause instanceof Error ? describe(cause, depth + 1) : inspect(cause)}`,
  );
}

function truncate(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}… (${text.length} characters)` : text;
}
