import { userInfo } from 'node:os';
import type { Actor } from '../accounts/audit.ts';
import { Plans } from '../accounts/plans.ts';
import { prepareHome } from '../config/home.ts';
import { databaseOf, loadConfig } from '../config/load.ts';
import { openDatabase, type Database } from '../database/database.ts';

/**
 * The database that the environment names, whether a service runs on it or not. Reads no configuration file: a
 * fault in it must not keep anybody from revoking a key.
 */
export async function openDatabaseHere(): Promise<Database> {
  const place = databaseOf(process.env);
  if (place.url === null) await prepareHome(place.home);
  return await openDatabase(place);
}

/** The plans of the configuration file. Rejects with a `ConfigError`. */
export async function plansHere(): Promise<Plans> {
  const { file } = await loadConfig(process.env);
  return new Plans(file);
}

/**
 * The address under which people reach the service: `given`, or what the configuration says, without a slash at its
 * end. Rejects with a `ConfigError`.
 */
export async function publicUrlHere(given: string | undefined): Promise<string> {
  if (given !== undefined) return given.replace(/\/+$/, '');
  const { file, host, port } = await loadConfig(process.env);
  return file.publicUrl ?? `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Who runs this command, for the audit log. */
export function commandLineActor(): Actor {
  return { id: `cli:${userName()}`, ip: null };
}

/** A user of a container may have a number and no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown');
  }
}
