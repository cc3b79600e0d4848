import type { Command } from 'commander';
import { listPlans } from '../accounts/accounts.ts';
import { describeLimits } from './limit-options.ts';
import { openConfiguredDatabase, loadPlans } from './open.ts';
import { printJson, printTable } from './output.ts';
import { PROGRAM } from '../support/program-name.ts';

/** `sluice plans list`: lists the configured plans and the number of accounts on each. */
export function register(plans: Command): void {
  plans
    .command('list')
    .description('List the plans, their limits and the number of accounts on each.')
    .option('--json', 'print a JSON array of {"default","name","accounts","limits","weight"}')
    .addHelpText(
      'after',
      `\nPlans are defined in the configuration file, under \`plans\`. Closed accounts are not counted.\n\nExample:\n  $ ${PROGRAM} plans list`,
    )
    .action(list);
}

async function list(flags: { json?: true }): Promise<void> {
  const plans = await loadPlans();
  await using database = await openConfiguredDatabase();
  const rows = await listPlans(database, plans);
  if (flags.json) return printJson(rows.map(({ isDefault, ...row }) => ({ default: isDefault, ...row })));
  printTable(
    rows.map(({ name, isDefault, accounts, limits, weight }) => ({
      PLAN: isDefault ? `${name} (default)` : name,
      ACCOUNTS: String(accounts),
      WEIGHT: weight === null ? '—' : String(weight),
      LIMITS:
        limits === null
          ? 'not in the configuration; requests of its accounts are refused'
          : describeLimits(limits),
    })),
  );
}
