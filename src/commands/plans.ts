import type { Command } from 'commander';
import { countAccountsByPlan } from '../accounts/accounts.ts';
import type { PlanLimits } from '../config/schema.ts';
import { openDatabaseHere, plansHere } from './open.ts';
import { printJson, printTable } from './output.ts';

/** `sluice plans list`: the plans of the configuration, and how many accounts are on each. */
export function register(program: Command): void {
  program
    .command('plans')
    .description('Show the plans of the configuration.')
    .command('list')
    .description('List the plans with their limits, and how many accounts are on each.')
    .option('--json', 'print an array of {"name","default","accounts","limits"}')
    .addHelpText(
      'after',
      '\nPlans stand in the configuration file, under `plans`. Closed accounts are not counted.\n\nExample:\n  $ sluice plans list',
    )
    .action(list);
}

interface Row {
  name: string;
  default: boolean;
  accounts: number;
  limits: PlanLimits | null;
}

async function list(flags: { json?: true }): Promise<void> {
  const plans = await plansHere();
  await using database = await openDatabaseHere();
  const counts = await countAccountsByPlan(database);
  const known: Row[] = plans.list().map(({ name, limits }) => {
    const isDefault = name === plans.defaultName;
    const accounts = (counts.get(name) ?? 0) + (isDefault ? (counts.get(null) ?? 0) : 0);
    return { name, default: isDefault, accounts, limits };
  });
  // An account keeps the name of a plan that the configuration has lost, and may use nothing until it is back.
  const lost: Row[] = [...counts].flatMap(([name, accounts]) =>
    name === null || plans.of(name) !== null ? [] : [{ name, default: false, accounts, limits: null }],
  );
  const rows = [...known, ...lost];
  if (flags.json) return printJson(rows);
  printTable(
    ['PLAN', 'ACCOUNTS', 'LIMITS'],
    rows.map((row) => [
      row.default ? `${row.name} (default)` : row.name,
      String(row.accounts),
      row.limits === null ? 'not in the configuration: its accounts may use nothing' : limitWords(row.limits),
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
