import { basename } from 'node:path';
import { styleText } from 'node:util';
import { logLineOf, type LogFields } from '../log.ts';

/** Formats log lines for a terminal: one line per event, with the time of day. A destination for `openLog`. */
export class TerminalLog {
  readonly #print: (line: string) => void;
  readonly #colored: boolean;
  readonly #printed = new Set<string>();

  constructor(print: (line: string) => void, colored: boolean) {
    this.#print = print;
    this.#colored = colored;
  }

  /** Takes the JSON of one log line. */
  write(json: string): void {
    const event = logLineOf(json.trimEnd());
    if (event === null) {
      this.#print(json.trimEnd());
      return;
    }
    const text = (SENTENCES[event.message] ?? describe)(event.fields, event.message);
    if (text === null) return;
    if (START_FAILURES.has(event.message)) this.#printed.add(text);
    const mark = MARKS[event.level];
    const label = mark === undefined ? '' : `${this.#colored ? styleText(...mark) : mark[1]}  `;
    this.#print(`${timeOfDay(new Date())}  ${label}${text}`);
  }

  /** Removes the lines that were printed as events from the error message of a failed start. */
  withoutPrinted(message: string): string {
    const printed = (line: string): boolean =>
      this.#printed.has(line) || this.#printed.has(line.replace(/^ {2}- /, SOURCE_FAILED));
    return message
      .split('\n')
      .filter((line) => !printed(line))
      .join('\n');
  }
}

/** Events that the error message of a failed start repeats. */
const START_FAILURES: ReadonlySet<string> = new Set([
  'download source failed',
  'cannot start the model',
  'the engine cannot start',
]);

const SOURCE_FAILED = 'Could not download from ';

const MARKS: Partial<Record<string, Parameters<typeof styleText>>> = {
  warn: ['yellow', 'warning', { validateStream: false }],
  error: ['red', 'error', { validateStream: false }],
};

/** Events with a text of their own; null: the welcome says it. */
const SENTENCES: Partial<Record<string, (fields: LogFields) => string | null>> = {
  ready: () => null,
  'download source failed': ({ source, reason }) => `${SOURCE_FAILED}${source}: ${firstLine(reason)}`,
  'model downloaded': ({ file }) => `Downloaded ${basename(String(file))}`,
  'loading the model': ({ engine, memory }) => `Loading ${engine}: ${memory}`,
  'engine ready': ({ engine, backend, slots }) => `${engine} is ready: ${backend}, ${slots} slots`,
  'cannot start the model': ({ model, reason }) => `Cannot serve ${model}: ${firstLine(reason)}`,
  'the engine cannot start': ({ engine, reason }) => `Cannot serve ${engine}: ${firstLine(reason)}`,
  request: describeRequest,
};

/** Such as `POST /v1/chat/completions  200  acme/model  12 + 34 tokens  1.2 s`. */
function describeRequest(fields: LogFields): string {
  const { path, status, code, model, promptTokens, completionTokens, totalMs, cause } = fields;
  return joined([
    `POST ${path}`,
    joined([status, code], ' '),
    model,
    `${promptTokens} + ${completionTokens} tokens`,
    `${(Number(totalMs) / 1000).toFixed(1)} s`,
    cause === undefined ? null : firstLine(cause),
  ]);
}

/** Such as `replica is healthy  replica=acme/model#0`. */
function describe(fields: LogFields, message: string): string {
  const named = Object.entries(fields)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => {
      const text = firstLine(value);
      return `${name}=${/[\s=]/.test(text) ? JSON.stringify(text) : text}`;
    });
  return joined([message, ...named]);
}

function joined(parts: readonly LogFields[string][], separator = '  '): string {
  return parts.filter((part) => part !== null && part !== undefined && part !== '').join(separator);
}

function firstLine(value: LogFields[string]): string {
  return String(value).split('\n', 1)[0] ?? '';
}

function timeOfDay(date: Date): string {
  return [date.getHours(), date.getMinutes(), date.getSeconds()]
    .map((part) => String(part).padStart(2, '0'))
    .join(':');
}
