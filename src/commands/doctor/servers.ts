import { existsSync } from 'node:fs';
import type { Config } from '../../config/schema.ts';
import { sqlitePath } from '../../database/database.ts';
import { asPostgresError } from '../../database/errors.ts';
import { checkSqlite } from '../../database/sqlite.ts';
import type { Secret } from '../../secret.ts';
import type { Finding } from './finding.ts';

/** Timeout for connecting to a server, in milliseconds. */
const CONNECT_MS = 5000;

/** Checks the database, if it exists, and connects to the configured Valkey or Redis server. */
export async function checkServers({ home, databaseUrl, valkeyUrl }: Config): Promise<Finding[]> {
  const checks: Promise<Finding>[] = [];
  const path = sqlitePath(home);
  if (databaseUrl !== null) checks.push(checkPostgres(databaseUrl));
  else if (existsSync(path)) checks.push(Promise.resolve(checkFile(path)));
  if (valkeyUrl !== null) checks.push(checkValkey(valkeyUrl));
  return await Promise.all(checks);
}

function checkFile(path: string): Finding {
  const subject = 'database';
  try {
    checkSqlite(path);
    return { subject, status: 'good', found: `SQLite: ${path}`, advice: null };
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error);
    return { subject, status: 'fault', found, advice: 'docs/databases.md explains the message.' };
  }
}

async function checkPostgres(url: Secret): Promise<Finding> {
  const subject = 'database';
  const { Client } = await import('pg');
  const { nameOf, postgresOptions } = await import('../../database/postgres.ts');
  const name = nameOf(url);
  const client = new Client({ ...postgresOptions(url), connectionTimeoutMillis: CONNECT_MS });
  try {
    await client.connect();
    const { rows } = await client.query<{ server_version: string }>('show server_version');
    const found = `PostgreSQL ${rows[0]?.server_version ?? ''}: ${name}`;
    return { subject, status: 'good', found, advice: null };
  } catch (error) {
    const translated = asPostgresError(error, name);
    return {
      subject,
      status: 'fault',
      found: translated instanceof Error ? translated.message : String(translated),
      advice: 'Check SLUICE_DATABASE_URL and the server. docs/databases.md lists the requirements.',
    };
  } finally {
    await client.end().catch(() => {});
  }
}

async function checkValkey(url: Secret): Promise<Finding> {
  const subject = 'limits';
  const { createClient } = await import('@redis/client');
  const { hostname, port } = new URL(url.reveal());
  const address = `${hostname}:${port || '6379'}`;
  const client = createClient({
    url: url.reveal(),
    disableOfflineQueue: true,
    socket: { connectTimeout: CONNECT_MS, reconnectStrategy: false },
  });
  // Without a listener, an error would end the process. `connect` rejects with the same error.
  client.on('error', () => {});
  try {
    await client.connect();
    const info = await client.info('server');
    const valkey = /^valkey_version:(\S+)/m.exec(info)?.[1];
    const redis = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '';
    const found = `${valkey === undefined ? `Redis ${redis}` : `Valkey ${valkey}`} on ${address}`;
    return { subject, status: 'good', found, advice: null };
  } catch (error) {
    return {
      subject,
      status: 'note',
      found: `Valkey or Redis on ${address} does not respond (${error instanceof Error ? error.message : String(error)}).`,
      advice:
        'Check SLUICE_VALKEY_URL and the server. Until it responds, `limits.whenStoreUnavailable` applies.',
    };
  } finally {
    client.destroy();
  }
}
