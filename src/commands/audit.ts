import type { Command } from 'commander';
import { listAudit, type AuditRow } from '../accounts/audit.ts';
import { everyItem } from '../accounts/page.ts';
import { auditJson } from '../http/api/json.ts';
import { openConfiguredDatabase } from './open.ts';
import { note, printJson, printTable, shortTime } from './output.ts';
import { limitOption } from './whole-number.ts';
import { PROGRAM } from '../support/program-name.ts';

/** `sluice audit list`: prints the audit log. */
export function register(audit: Command): void {
  audit
    .command('list')
    .description('List changes, newest first.')
    .option('--account <account>', 'only changes to this account and its keys')
    .addOption(limitOption('entries'))
    .option('--json', 'print a JSON array, with ISO 8601 times')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} audit list --account default`)
    .action(list);
}

async function list(flags: { account?: string; limit: number; json?: true }): Promise<void> {
  await using database = await openConfiguredDatabase();
  const { account, limit } = flags;
  const items: AuditRow[] = [];
  // A page of large entries is shorter than `limit`.
  for await (const entry of everyItem((page) =>
    listAudit(database, { accountId: account }, { ...page, limit }),
  )) {
    items.push(entry);
    if (items.length === limit) break;
  }
  if (flags.json) return printJson(items.map(auditJson));
  if (items.length === 0) return note(account === undefined ? 'No changes yet.' : 'No matching changes.');
  printTable(
    items.map(({ at, actor, ip, action, subject, detail }) => ({
      AT: shortTime(at),
      ACTOR: actor,
      IP: ip ?? '-',
      ACTION: action,
      SUBJECT: subject,
      DETAIL: detail,
    })),
  );
}
