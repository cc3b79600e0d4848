import { basename } from 'node:path';
import { styleText } from 'node:util';
import { logLineOf, type LogFields } from '../support/log.ts';
import { printable } from './output.ts';

/**
 * Formats log lines for people: one line per event, with the time of day, and in color if `colored`. A destination for
 * `openLog`.
 */
export class TerminalLog {
  readonly #print: (line: string) => void;
  readonly #colored: boolean;
  readonly #printed = new Set<string>();

  constructor(print: (line: string) => void, colored: boolean) {
    this.#print = print;
    this.#colored = colored;
  }

  /** Prints a log line, given as JSON. */
  write(json: string): void {
    const event = logLineOf(json.trimEnd());
    if (event === null) {
      this.#print(json.trimEnd());
      return;
    }
    const get: Get = (name) => printable(String(event.fields[name] ?? '').split('\n', 1)[0] ?? '');
    const format = EVENT_TEXTS[event.message];
    const text = format ? format(get) : describe(event.message, event.fields, get);
    if (text === null) return;
    if (START_FAILURES.has(event.message)) this.#printed.add(text);
    const label = LABELS[event.level];
    const time = this.#paint('dim', timeOfDay(new Date()));
    const start = label === undefined ? time : `${time}  ${this.#paint(...label)}`;
    this.#print(`${start}  ${this.#paint(colorOf(event.message, event.fields), text)}`);
  }

  #paint(color: Color, text: string): string {
    return this.#colored && color !== null ? styleText(color, text, { validateStream: false }) : text;
  }

  /** Returns the error message of a failed start without the lines that the log has already printed. */
  withoutPrinted(message: string): string {
    const printed = (line: string): boolean =>
      this.#printed.has(line) || this.#printed.has(line.replace(/^ {2}- /, SOURCE_FAILED));
    return message
      .split('\n')
      .filter((line) => !printed(line))
      .join('\n');
  }
}

/** Events whose text is also in the error message of a failed start. */
const START_FAILURES: ReadonlySet<string> = new Set([
  'download source failed',
  'cannot start the model',
  'the engine cannot start',
]);

const SOURCE_FAILED = 'Could not download from ';

type Color = 'dim' | 'yellow' | 'red' | null;

const LABELS: Partial<Record<string, [Color, string]>> = {
  warn: ['yellow', 'warning'],
  error: ['red', 'error'],
  debug: ['dim', 'debug'],
};

/** Returns the color of a line. The color of a request shows whether it failed. */
function colorOf(message: string, { status }: LogFields): Color {
  if (message === 'request refused') return 'yellow';
  if (message !== 'request' || typeof status !== 'number' || status < 400) return null;
  return status < 500 ? 'yellow' : 'red';
}

/** Returns the first line of a field without control characters, or an empty string if it is null or missing. */
type Get = (name: string) => string;

/**
 * Text of specific events. If the text is null, the event is not printed, because the welcome text has the same
 * content.
 */
const EVENT_TEXTS: Partial<Record<string, (get: Get) => string | null>> = {
  ready: () => null,
  'download source failed': (get) => `${SOURCE_FAILED}${get('source')}: ${get('reason')}`,
  'model downloaded': (get) => `Downloaded ${basename(get('file'))}`,
  'loading the model': (get) => joinPresent([`Loading ${get('engine')}: ${get('memory')}`, get('context')]),
  'the chat template does not support tools; tools are described in the system message instead': (get) =>
    `${get('engine')} has a chat template without tools; they are described in the system message instead`,
  'engine ready': (get) => `${get('engine')} is ready: ${get('backend')}, ${get('slots')} slots`,
  'cannot start the model': (get) => `Cannot serve ${get('model')}: ${get('reason')}`,
  'the engine cannot start': (get) => `Cannot serve ${get('engine')}: ${get('reason')}`,
  stopping: (get) => `Stopping; requests still running: ${get('running')}`,
  request: describeRequest,
  'token count': (get) =>
    joinPresent([`POST ${get('path')}`, get('model'), `${get('promptTokens')} tokens`, secondsOf(get)]),
  'request refused': (get) => joinPresent(['Refused', get('path'), get('code')]),
};

/** Formats a request, such as `POST /v1/chat/completions  200  acme/model  12 + 34 tokens  1.2 s`. */
function describeRequest(get: Get): string {
  return joinPresent([
    `POST ${get('path')}`,
    `${get('status')} ${get('code')}`.trim(),
    get('model'),
    `${get('promptTokens')} + ${get('completionTokens')} tokens`,
    secondsOf(get),
    get('cause'),
  ]);
}

function secondsOf(get: Get): string {
  return `${(Number(get('totalMs')) / 1000).toFixed(1)} s`;
}

/** Formats any other event, such as `replica is healthy  replica=acme/model#0`. */
function describe(message: string, fields: LogFields, get: Get): string {
  const named = Object.keys(fields)
    .filter((name) => get(name) !== '')
    .map((name) => `${name}=${/[\s=]/.test(get(name)) ? JSON.stringify(get(name)) : get(name)}`);
  return joinPresent([message, ...named]);
}

function joinPresent(parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join('  ');
}

function timeOfDay(date: Date): string {
  return [date.getHours(), date.getMinutes(), date.getSeconds()]
    .map((part) => String(part).padStart(2, '0'))
    .join(':');
}
