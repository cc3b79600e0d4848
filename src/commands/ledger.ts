import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { z } from 'zod';
import { picoOfUsd } from '../accounts/ledger/cost.ts';
import { REQUEST_FIELDS, requestJson, valueOf, type RequestRow } from '../accounts/ledger/request-json.ts';
import { NOTE_NAMES, type RequestNote } from '../accounts/ledger/request-notes.ts';
import { exportRequests } from '../accounts/ledger/requests.ts';
import { MAX_MS, MAX_TOKENS } from '../http/api/contract/request-filters.ts';
import { moment } from '../http/api/contract/schemas.ts';
import { openConfiguredDatabase } from './open.ts';
import { csvLine } from './output.ts';
import { wholeNumber } from './whole-number.ts';
import { PROGRAM } from '../support/program-name.ts';

/** `sluice ledger export`: streams the rows of the ledger. */
export function register(ledger: Command): void {
  ledger
    .command('export')
    .description('Print one line per request, oldest first. Prompts and completions are not stored.')
    .option(
      '--from <moment>',
      'requests that started at or after this time: a UTC day or an ISO 8601 date and time',
      parseMoment,
    )
    .option('--to <moment>', 'requests that started before this time', parseMoment)
    .option('--account <account>', 'only requests of this account')
    .option('--client <client>', 'only requests of this client, such as `OpenAI Python`')
    .option('--min-duration-ms <ms>', 'only requests that took at least this long', wholeNumber(1, MAX_MS))
    .option(
      '--min-ttft-ms <ms>',
      'only requests whose first token took at least this long',
      wholeNumber(1, MAX_MS),
    )
    .option(
      '--min-tokens <count>',
      'only requests with at least this many prompt and completion tokens',
      wholeNumber(1, MAX_TOKENS),
    )
    .option('--min-cost-usd <usd>', 'only requests that cost at least this much', parseUsd)
    .addOption(new Option('--note <note>', 'only requests with this note').choices(NOTE_NAMES))
    .addOption(new Option('--format <format>', 'output format').choices(['csv', 'jsonl']).default('csv'))
    .addHelpText(
      'after',
      `\nExample:\n  $ ${PROGRAM} ledger export --from 2026-11-01 --to 2026-12-01 --format jsonl > november.jsonl`,
    )
    .action(exportLedger);
}

interface Flags {
  from?: number;
  to?: number;
  account?: string;
  client?: string;
  minDurationMs?: number;
  minTtftMs?: number;
  minTokens?: number;
  minCostUsd?: bigint;
  note?: RequestNote;
  format: 'csv' | 'jsonl';
}

async function exportLedger({ from, to, account, minCostUsd, format, ...filter }: Flags): Promise<void> {
  await using database = await openConfiguredDatabase();
  const rows = exportRequests(database, {
    fromMs: from,
    toMs: to,
    accountId: account,
    minCostPico: minCostUsd,
    ...filter,
  });
  try {
    await pipeline(Readable.from(formatRows(rows, format)), process.stdout, { end: false });
  } catch (error) {
    // `main.ts` handles errors of the output.
    if (!(error instanceof Error && 'syscall' in error && error.syscall === 'write')) throw error;
  }
}

/** Rows are collected until they have this length, in characters, and then written together. */
const CHUNK_LENGTH = 65_536;

async function* formatRows(
  rows: AsyncIterable<RequestRow>,
  format: Flags['format'],
): AsyncGenerator<string, void> {
  let text = format === 'csv' ? csvLine(REQUEST_FIELDS.map(({ csv }) => csv)) : '';
  for await (const row of rows) {
    text +=
      format === 'csv'
        ? csvLine(REQUEST_FIELDS.map((field) => valueOf(field, row)))
        : `${JSON.stringify(requestJson(row))}\n`;
    if (text.length < CHUNK_LENGTH) continue;
    yield text;
    text = '';
  }
  if (text !== '') yield text;
}

/** `Date.parse` alone would read February 30 as a day in March. */
const DAY_OR_MOMENT = z.union([z.iso.date(), moment]);

/** Converts a UTC day, or a time with its time zone, to Unix milliseconds. Throws commander's error. */
function parseMoment(text: string): number {
  if (DAY_OR_MOMENT.safeParse(text).success) return Date.parse(text);
  throw new InvalidArgumentError(
    'Expected a UTC day such as 2026-11-21, or a time such as 2026-11-21T16:11:48Z.',
  );
}

/** Converts USD to pico-dollars. Throws commander's error. */
function parseUsd(text: string): bigint {
  const pico = picoOfUsd(text);
  if (pico !== null) return pico;
  throw new InvalidArgumentError('Expected USD as a decimal string, such as 0.01.');
}
