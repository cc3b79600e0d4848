import type { Config } from '../../config/schema.ts';
import { asPostgresError } from '../../database/errors.ts';
import type { Secret } from '../../secret.ts';
import type { Finding } from './finding.ts';

/** How long a server may take to answer, in milliseconds. */
const ANSWER_MS = 5000;

/** The servers that the environment names for several copies of the service; nothing where it names none. */
export function lookAtServers({ databaseUrl, valkeyUrl }: Config): Promise<Finding[]> {
  const looks: Promise<Finding>[] = [];
  if (databaseUrl !== null) looks.push(lookAtDatabase(databaseUrl));
  if (valkeyUrl !== null) looks.push(lookAtStore(valkeyUrl));
  return Promise.all(looks);
}

async function lookAtDatabase(url: Secret): Promise<Finding> {
  const subject = 'database';
  const { Client } = await import('pg');
  const { nameOf, postgresOptions } = await import('../../database/postgres.ts');
  const name = nameOf(url);
  const client = new Client({ ...postgresOptions(url), connectionTimeoutMillis: ANSWER_MS });
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

async function lookAtStore(url: Secret): Promise<Finding> {
  const subject = 'limits';
  const { createClient } = await import('@redis/client');
  const { hostname, port } = new URL(url.reveal());
  const place = `${hostname}:${port || '6379'}`;
  const client = createClient({
    url: url.reveal(),
    disableOfflineQueue: true,
    socket: { connectTimeout: ANSWER_MS, reconnectStrategy: false },
  });
  // Told by `connect` as well; without a listener it would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    const info = await client.info('server');
    const valkey = /^valkey_version:(\S+)/m.exec(info)?.[1];
    const redis = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '';
    const found = `${valkey === undefined ? `Redis ${redis}` : `Valkey ${valkey}`} on ${place}`;
    return { subject, status: 'good', found, advice: null };
  } catch (error) {
    return {
      subject,
      status: 'note',
      found: `Valkey or Redis on ${place} does not respond (${error instanceof Error ? error.message : String(error)}).`,
      advice: 'Check SLUICE_VALKEY_URL and the server. Until it responds, `limits.whenStoreIsAway` applies.',
    };
  } finally {
    client.destroy();
  }
}
