import { Option, type Command } from 'commander';
import { withUsageNames } from '../accounts/names.ts';
import { readUsagePage, type UsageJson } from '../accounts/ledger/usage.ts';
import { USAGE_DIMENSIONS, type UsageDimension } from '../accounts/ledger/roll-ups.ts';
import { parseUsageQuery } from '../accounts/usage-query.ts';
import { openConfiguredDatabase } from './open.ts';
import { csvLine, note, printJson, printTable } from './output.ts';
import { PROGRAM } from '../support/program-name.ts';

/** `sluice usage`: prints usage from the roll-ups. */
export function register(command: Command): void {
  command
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
  const read: UsageJson[] = [];
  let cursor: string | null = null;
  do {
    const part = { ...query, cursor, accountId: flags.account };
    // Large pages, because each one reads the roll-ups again.
    const page: Awaited<ReturnType<typeof readUsagePage>> = await readUsagePage(database, part, {
      maxRows: Infinity,
    });
    // Not `push(...rows)`, whose arguments would be too many for the stack.
    for (const row of page.rows) read.push(row);
    cursor = page.nextCursor;
  } while (cursor !== null);
  const rows = await withUsageNames(database, read);
  if (flags.json) return printJson(rows);
  if (flags.csv) return printCsv(rows);
  if (rows.length === 0) return note('No usage in this period.');
  const named = (name: string | null, id: string | null) => (id === null ? null : `${name ?? '-'} (${id})`);
  const dimensionOf = (row: (typeof rows)[number], dimension: UsageDimension): string => {
    const { hour, day, model, client, tag } = row;
    const key = named(row.key_name, row.key_id);
    const account = named(row.account_name, row.account_id);
    const member = named(row.member_name, row.member_id);
    return { hour, day, model, key, account, client, member, tag }[dimension] ?? '-';
  };
  printTable(
    rows.map((row) => ({
      ...Object.fromEntries(
        query.by.map((dimension) => [dimension.toUpperCase(), dimensionOf(row, dimension)]),
      ),
      REQUESTS: `${row.requests}`,
      ERRORS: `${row.errors + row.interrupted}`,
      ABORTED: `${row.aborted}`,
      PROMPT: `${row.prompt_tokens}`,
      CACHED: `${row.cached_tokens}`,
      MISSED: `${row.cache_miss_tokens}`,
      COMPLETION: `${row.completion_tokens}`,
      REASONING: `${row.reasoning_tokens}`,
      USD: row.cost_usd,
      'TTFT MS': `${row.ttft_ms?.p50 ?? '-'}`,
      'TOKENS/S': `${row.tokens_per_second?.p50 ?? '-'}`,
    })),
  );
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
