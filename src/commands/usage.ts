import { Option, type Command } from 'commander';
import { accountNames } from '../accounts/accounts.ts';
import { keyNames } from '../accounts/key-table.ts';
import { readUsagePage, type UsageJson } from '../accounts/ledger/usage.ts';
import { USAGE_DIMENSIONS, type UsageDimension } from '../accounts/ledger/roll-ups.ts';
import { parseUsageQuery } from '../accounts/usage-query.ts';
import type { Database } from '../database/database.ts';
import { openConfiguredDatabase } from './open.ts';
import { csvLine, note, printJson, printTable } from './output.ts';
import { PROGRAM } from '../support/program-name.ts';

/** `sluice usage`: prints usage from the roll-ups. */
export function register(program: Command): void {
  program
    .command('usage')
    .description('Show usage. Days are in UTC.')
    .option('--by <list>', `comma-separated list of ${USAGE_DIMENSIONS.join(', ')}`, 'day')
    .option('--from <day>', 'first day, such as 2026-11-21 (default: the first of this month)')
    .option('--to <day>', 'end day, not included (default: tomorrow)')
    .option('--account <account>', 'only usage of this account')
    .addOption(new Option('--json', 'print a JSON array').conflicts('csv'))
    .option('--csv', 'print CSV with a header line')
    .addHelpText(
      'after',
      `\nExample:\n  $ ${PROGRAM} usage --by day,model --from 2026-11-01 --to 2026-12-01 --account default`,
    )
    .action(usage);
}

interface UsageFlags {
  by: string;
  from?: string;
  to?: string;
  account?: string;
  json?: true;
  csv?: true;
}

async function usage(flags: UsageFlags): Promise<void> {
  const query = parseUsageQuery(flags, Date.now());
  await using database = await openConfiguredDatabase();
  const rows: UsageJson[] = [];
  let cursor: string | null = null;
  do {
    const part = { ...query, cursor, accountId: flags.account };
    // Large pages, because each one reads the roll-ups again.
    const page: Awaited<ReturnType<typeof readUsagePage>> = await readUsagePage(database, part, {
      maxRows: Infinity,
    });
    // Not `push(...rows)`, whose arguments would be too many for the stack.
    for (const row of page.rows) rows.push(row);
    cursor = page.nextCursor;
  } while (cursor !== null);
  if (flags.json) return printJson(rows);
  if (flags.csv) return printCsv(rows);
  if (rows.length === 0) return note('No usage in this period.');
  const names = await namesOf(database, rows);
  const named = (id: string | null) => (id === null ? null : `${names.get(id) ?? '-'} (${id})`);
  const dimensionOf = (row: UsageJson, dimension: UsageDimension): string => {
    const { hour, day, model, client } = row;
    const [key, account] = [named(row.key_id), named(row.account_id)];
    return { hour, day, model, key, account, client }[dimension] ?? '-';
  };
  printTable(
    [...query.by.map((dimension) => dimension.toUpperCase()), ...HEADINGS],
    rows.map((row) => [...query.by.map((dimension) => dimensionOf(row, dimension)), ...cells(row)]),
  );
}

/** Ids in one query, because databases limit its parameters. */
const IDS_AT_ONCE = 500;

/** Returns the names of the keys and accounts of these rows, by ID. */
async function namesOf(database: Database, rows: readonly UsageJson[]): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  for (const [read, field] of [
    [keyNames, 'key_id'],
    [accountNames, 'account_id'],
  ] as const) {
    const ids = [...new Set(rows.map((row) => row[field]))].filter((id) => id !== null);
    for (let at = 0; at < ids.length; at += IDS_AT_ONCE) {
      for (const [id, name] of await read(database, ids.slice(at, at + IDS_AT_ONCE))) names.set(id, name);
    }
  }
  return names;
}

const HEADINGS = [
  'REQUESTS',
  'ERRORS',
  'ABORTED',
  'PROMPT',
  'CACHED',
  'MISSED',
  'COMPLETION',
  'REASONING',
  'USD',
  'TTFT MS',
  'TOKENS/S',
];

function cells(row: UsageJson): string[] {
  const counts = [row.requests, row.errors + row.interrupted, row.aborted];
  const prompt = [row.prompt_tokens, row.cached_tokens, row.cache_miss_tokens];
  const completion = [row.completion_tokens, row.reasoning_tokens];
  const medians = [row.ttft_ms, row.tokens_per_second].map((values) => values?.p50 ?? '-');
  return [...counts, ...prompt, ...completion, row.cost_usd, ...medians].map(String);
}

function printCsv(rows: readonly UsageJson[]): void {
  const lines = rows.map(({ ttft_ms: ttft, tokens_per_second: speed, ...row }) => ({
    ...row,
    ttft_ms_p50: ttft?.p50 ?? null,
    ttft_ms_p95: ttft?.p95 ?? null,
    tokens_per_second_p50: speed?.p50 ?? null,
    tokens_per_second_p5: speed?.p5 ?? null,
  }));
  const [first] = lines;
  if (first === undefined) return note('No usage in this period.');
  process.stdout.write(csvLine(Object.keys(first)));
  for (const line of lines) process.stdout.write(csvLine(Object.values(line)));
}
