import type { Command } from 'commander';
import { listPlanUsage } from '../accounts/accounts.ts';
import type { PlanLimits } from '../config/plan.ts';
import { openDatabaseHere, plansHere } from './open.ts';
import { printJson, printTable } from './output.ts';
import { PROGRAM } from '../program-name.ts';

/** `sluice plans list`: the plans of the configuration, and how many accounts are on each. */
export function register(program: Command): void {
  program
    .command('plans')
    .description('List the plans and the number of accounts on each.')
    .command('list')
    .description('List the plans, their limits and the number of accounts on each.')
    .option('--json', 'print a JSON array of {"default","name","accounts","limits"}')
    .addHelpText(
      'after',
      `\nPlans are defined in the configuration file, under \`plans\`. Closed accounts are not counted.\n\nExample:\n  $ ${PROGRAM} plans list`,
    )
    .action(list);
}

async function list(flags: { json?: true }): Promise<void> {
  const plans = await plansHere();
  await using database = await openDatabaseHere();
  const rows = await listPlanUsage(database, plans);
  if (flags.json) return printJson(rows.map(({ isDefault, ...row }) => ({ default: isDefault, ...row })));
  printTable(
    ['PLAN', 'ACCOUNTS', 'LIMITS'],
    rows.map(({ name, isDefault, accounts, limits }) => [
      isDefault ? `${name} (default)` : name,
      String(accounts),
      limits === null ? 'not in the configuration; requests of its accounts are refused' : limitWords(limits),
    ]),
  );
}

/** Limits in one line: `requestsPerMinute 20, usdPerMonth 5`, then those of single models by their ids. */
export function limitWords({ models = {}, ...all }: PlanLimits): string {
  const words = [limitsOf(all), ...Object.entries(models).map(([id, one]) => `${id}: ${limitsOf(one)}`)];
  return words.filter((text) => text !== '').join('; ') || 'none';
}

function limitsOf({ burst = {}, ...limits }: Omit<PlanLimits, 'models'>): string {
  const bursts = Object.entries(burst).map(([what, count]) => `burst of ${count} ${what}`);
  return [...Object.entries(limits).map(([name, bound]) => `${name} ${bound}`), ...bursts].join(', ');
}
