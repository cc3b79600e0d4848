import type { Command } from 'commander';
import { recordAudit } from '../accounts/audit.ts';
import { sendTest } from '../alerts/alerts.ts';
import { Channels } from '../alerts/channels.ts';
import { AlertStore, type SilenceTarget } from '../alerts/store.ts';
import { isAlertType } from '../core/alert-types.ts';
import { loadConfig, loadSecrets } from '../config/load.ts';
import { alertJson } from '../http/api/alerts.ts';
import { Mailer } from '../identity/mailer.ts';
import { SILENT } from '../support/log.ts';
import { PROGRAM } from '../support/program-name.ts';
import { commandLineActor, loadPublicUrl, openConfiguredDatabase } from './open.ts';
import { note, printJson, printTable, shortTime } from './output.ts';
import { limitOption, wholeNumber } from './whole-number.ts';

/** `sluice alerts …`: reads and changes the database directly, with or without a running service. */
export function register(alerts: Command): void {
  alerts
    .command('list')
    .description('List alerts, newest first.')
    .addOption(limitOption('alerts'))
    .option('--json', 'print a JSON array, with ISO 8601 times')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} alerts list`)
    .action(list);
  alerts
    .command('test')
    .description(
      'Send a test message to each configured channel. The exit code is 1 if one of them cannot be reached.',
    )
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} alerts test`)
    .action(test);
  alerts
    .command('silence')
    .description('Send no messages about a type of alerts, or about one alert, for a time.')
    .argument('<target>', 'type of alerts, such as `disk_low`, or ID of an alert')
    .requiredOption('--hours <hours>', 'for how long, from 1 to 8760', wholeNumber(1, 8760))
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} alerts silence disk_low --hours 24`)
    .action(silence);
  alerts
    .command('unsilence')
    .description('End a silence. Alerts that fired in the meantime and are still firing are sent.')
    .argument('<target>', 'type of alerts, or ID of an alert')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} alerts unsilence disk_low`)
    .action(unsilence);
}

async function list({ limit, json }: { limit: number; json?: true }): Promise<void> {
  await using database = await openConfiguredDatabase();
  const { items } = await new AlertStore(database).list({ limit });
  if (json) return printJson(items.map(alertJson));
  if (items.length === 0) return note('No alerts yet.');
  printTable(
    items.map(({ id, firedAt, resolvedAt, type, messages, title }) => ({
      ID: id,
      FIRED: shortTime(firedAt),
      RESOLVED: shortTime(resolvedAt),
      TYPE: type,
      SENT: `${messages.filter(({ state }) => state === 'sent').length}/${messages.length}`,
      TITLE: title,
    })),
  );
}

async function test(): Promise<void> {
  const config = await loadConfig(process.env);
  const secrets = loadSecrets(config, process.env);
  const { alerts: settings, smtp } = config.file;
  const url = await loadPublicUrl(undefined);
  await using database = await openConfiguredDatabase();
  await using mailer =
    smtp === undefined ? null : new Mailer(smtp, secrets.get(smtp.passwordEnv ?? ''), SILENT);
  await using channels = new Channels({ settings, secrets, mailer, publicUrl: () => url, env: process.env });
  if (channels.operators.length === 0) {
    process.exitCode = 1;
    return note(
      'No channels are configured: set `alerts.email` or `alerts.webhooks` in the configuration file.',
    );
  }
  await recordAudit(database, commandLineActor(), { action: 'alert.test', subject: 'alerts' });
  const results = await sendTest(channels);
  printTable(
    results.map(({ channel, target, error, durationMs }) => ({
      CHANNEL: channel,
      TARGET: target,
      RESULT: error ?? `sent in ${durationMs} ms`,
    })),
  );
  if (results.some(({ error }) => error !== null)) process.exitCode = 1;
}

async function silence(target: string, { hours }: { hours: number }): Promise<void> {
  await using database = await openConfiguredDatabase();
  const until = Date.now() + hours * 3_600_000;
  const silenced = await new AlertStore(database).silence(targetOf(target), until, commandLineActor());
  note(`Silenced ${silenced.target} until ${shortTime(silenced.until)}.`);
}

async function unsilence(target: string): Promise<void> {
  await using database = await openConfiguredDatabase();
  note(
    `${await new AlertStore(database).unsilence(targetOf(target), commandLineActor())} is not silenced any more.`,
  );
}

/** IDs of alerts contain hyphens, types do not. */
function targetOf(text: string): SilenceTarget {
  return isAlertType(text) || !text.includes('-') ? { type: text } : { alertId: text };
}
