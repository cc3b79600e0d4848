import { inspect } from 'node:util';
import { pino, type DestinationStream } from 'pino';

/** What a log line may hold beside its message: plain values and errors. A `Secret` is none of them. */
export type LogFields = Readonly<
  Record<string, string | number | bigint | boolean | null | undefined | Error | readonly string[]>
>;

/** The log: JSON lines with a level, a time in Unix milliseconds, a message and fields. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** The same log with these fields on every line. */
  with(fields: LogFields): Log;
}

export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'silent';

/** Longest text of one field, in characters: a log line has a bound, whoever wrote what is in it. */
const MAX_TEXT = 4096;

/** Lines wait for so many characters or milliseconds, because a write a line is a tenth of what a request costs. */
const BATCH_LENGTH = 8192;
const BATCH_MS = 250;

/** Opens the log on standard error, or on `destination`. What is worth a warning is written at once. */
export function openLog(level: LogLevel, destination: DestinationStream = standardError()): Log {
  const options = {
    level,
    base: null,
    messageKey: 'message',
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return wrap(pino(options, destination));
}

/**
 * Standard error, several lines a write. Lines are gathered here and not by pino's stream, which would put the
 * whole batch together anew for each of them.
 */
function standardError(): DestinationStream & { flush(): void } {
  const stream = pino.destination({ fd: 2, sync: true });
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

/** A log that writes nothing. */
export const SILENT: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  with: () => SILENT,
};

type PinoLogger = ReturnType<typeof pino>;

function wrap(logger: PinoLogger): Log {
  return {
    debug: (message, fields) => logger.isLevelEnabled('debug') && logger.debug(plain(fields), cut(message)),
    info: (message, fields) => logger.isLevelEnabled('info') && logger.info(plain(fields), cut(message)),
    warn(message, fields) {
      if (!logger.isLevelEnabled('warn')) return;
      logger.warn(plain(fields), cut(message));
      logger.flush();
    },
    error(message, fields) {
      if (!logger.isLevelEnabled('error')) return;
      logger.error(plain(fields), cut(message));
      logger.flush();
    },
    with: (fields) => wrap(logger.child(plain(fields))),
  };
}

function plain(fields: LogFields = {}): LogFields | Record<string, unknown> {
  // Most lines are taken as they are: a copy is a good part of what a line costs.
  if (!Object.values(fields).some(needsCare)) return fields;
  const out: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value instanceof Error) out[name] = describe(value);
    else if (typeof value === 'string') out[name] = cut(value);
    else if (typeof value === 'bigint') out[name] = value.toString();
    else out[name] = value;
  }
  return out;
}

function needsCare(value: LogFields[string]): boolean {
  if (typeof value === 'string') return value.length > MAX_TEXT;
  return typeof value === 'bigint' || value instanceof Error;
}

/** An error as one text: its stack, and what caused it, to a depth of four. */
function describe(error: Error, depth = 0): string {
  const own = error.stack ?? `${error.name}: ${error.message}`;
  const cause = error.cause;
  if (cause === undefined || depth >= 4) return cut(own);
  return cut(`${own}\ncaused by ${cause instanceof Error ? describe(cause, depth + 1) : inspect(cause)}`);
}

function cut(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}… (${text.length} characters)` : text;
}
