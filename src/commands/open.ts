import { userInfo } from 'node:os';
import { InvalidArgumentError, type Command } from 'commander';
import type { Actor } from '../accounts/audit.ts';
import { Plans } from '../accounts/plans.ts';
import { prepareHome } from '../config/home.ts';
import { ConfigError, environmentIssue } from '../config/errors.ts';
import { databaseOf, loadConfig, secretKeyOf } from '../config/load.ts';
import { publicUrl } from '../config/schema.ts';
import { openDatabase, type Database } from '../database/database.ts';
import { SecretKeys } from '../database/secret-keys.ts';
import { runningService } from '../database/service-lock.ts';
import { note } from './output.ts';

/**
 * Opens the database that the environment variables name. Does not read the configuration file, so that keys can be
 * revoked even if it is invalid.
 */
export async function openConfiguredDatabase(): Promise<Database> {
  const location = databaseOf(process.env);
  if (location.url === null) await prepareHome(location.home);
  return await openDatabase({ ...location, onMigrationWait: noteMigrationWait });
}

/** Prints what the migration of the database waits for. */
export function noteMigrationWait(client: string): void {
  note(`Waiting to migrate the database: it is locked by ${client} …`);
}

/** Returns the keys that encrypt the secrets in the database. Throws a `ConfigError`. */
export function configuredSecretKeys(): SecretKeys {
  return new SecretKeys({ home: databaseOf(process.env).home, text: secretKeyOf(process.env) });
}

/** Loads the plans from the configuration file. Rejects with a `ConfigError`. */
export async function loadPlans(): Promise<Plans> {
  const { file } = await loadConfig(process.env, 'none');
  return new Plans(file);
}

/** Adds the option for the URL in the links that a command prints; see `loadPublicUrl`. */
export function addUrlOption(command: Command): Command {
  const parse = (text: string): string => {
    const { data, error } = publicUrl.safeParse(text);
    if (data === undefined) throw new InvalidArgumentError(sentence(error?.issues[0]?.message));
    return data;
  };
  return command.option(
    '--url <url>',
    'URL of the service (default: that of the running service, or else from the configuration)',
    parse,
  );
}

const sentence = (message = '') => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;

/**
 * Returns `option`, or else the URL of the running service, or else the configured URL. A
 * service on PostgreSQL leaves no record of its URL on this machine. Rejects with a `ConfigError`.
 */
export async function loadPublicUrl(option: string | undefined): Promise<string> {
  if (option !== undefined) return option;
  const database = databaseOf(process.env);
  const running = database.url === null ? runningService(database.home) : null;
  if (running !== null && running.url !== null) return running.url;
  const { file, host, port } = await loadConfig(process.env, 'none');
  if (file.publicUrl !== undefined) return file.publicUrl;
  if (port === 0) {
    const found = 'got 0, and no running service has recorded its URL';
    throw new ConfigError(null, [environmentIssue('SLUICE_PORT', 'the port of the service', found)]);
  }
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Returns the operating system user as the actor of audit log entries. */
export function commandLineActor(): Actor {
  return { id: `cli:${userName()}`, ip: null };
}

/** Falls back to the user ID, because a container user may have no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown');
  }
}
