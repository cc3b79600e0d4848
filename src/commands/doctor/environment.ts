import { constants } from 'node:fs';
import { access, stat, statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import { DatabaseError } from '../../database/errors.ts';
import { assertInPlace } from '../../database/sqlite-files.ts';
import { describeService, runningService } from '../../database/service-lock.ts';
import { isSluice } from '../port.ts';
import { formatBytes } from '../progress-bar.ts';
import type { Finding } from './finding.ts';

/** `checkHome` gives a note below this. Enough for the default model, its download and a growing database. */
const LOW_DISK_BYTES = 1_073_741_824;

/** Checks that the data directory, or its nearest existing parent, is writable and has free space. */
export async function checkHome(home: string): Promise<Finding> {
  const nearest = await nearestExisting(home);
  const advice = 'Give this user write permission, or set SLUICE_HOME to another directory.';
  const subject = 'data directory';
  if (!(await stat(nearest)).isDirectory()) {
    return { subject, status: 'fault', found: `${nearest} is a file, not a directory`, advice };
  }
  try {
    await access(nearest, constants.W_OK | constants.X_OK);
  } catch {
    return { subject, status: 'fault', found: `no write permission for ${nearest}`, advice };
  }
  const { bavail, bsize } = await statfs(nearest);
  const free = bavail * bsize;
  const little = free < LOW_DISK_BYTES;
  return {
    subject,
    status: little ? 'note' : 'good',
    found: `${home}${nearest === home ? '' : ' (will be created)'}, ${formatBytes(free)} free`,
    advice: little
      ? 'Models may not fit. Free some space, or set SLUICE_HOME to a directory on a larger disk.'
      : null,
  };
}

/** Checks the service that uses this data directory. Returns nothing if none is running. */
export function checkRunningService(home: string): Finding[] {
  const service = runningService(home);
  if (service === null) return [];
  const subject = 'service';
  try {
    assertInPlace(service.files);
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error;
    const advice =
      'The service refuses requests until this is fixed. docs/databases.md explains what is lost.';
    return [{ subject, status: 'fault', found: error.message, advice }];
  }
  return [{ subject, status: 'good', found: `running: ${describeService(service)}`, advice: null }];
}

async function nearestExisting(path: string): Promise<string> {
  for (let at = path; ; at = dirname(at)) {
    try {
      await stat(at);
      return at;
    } catch {
      if (at === dirname(at)) return at;
    }
  }
}

/** Checks that the address is free. A running Sluice service on it is not a fault. */
export async function checkPort(host: string, port: number): Promise<Finding> {
  const subject = 'port';
  const address = port === 0 ? `a port of ${host}` : `port ${port} of ${host}`;
  const code = await listenErrorCode(host, port);
  if (code === null) return { subject, status: 'good', found: `${address} is free`, advice: null };
  if (code === 'EADDRINUSE' && (await isSluice(host, port))) {
    return {
      subject,
      status: 'note',
      found: `a Sluice service is already running on ${address}`,
      advice: null,
    };
  }
  return {
    subject,
    status: 'fault',
    found: `cannot listen on ${address} (${REASONS.get(code) ?? code})`,
    advice: 'Set SLUICE_PORT to a free port (0: any), or SLUICE_HOST to an address of this machine.',
  };
}

const REASONS: ReadonlyMap<string, string> = new Map([
  ['EADDRINUSE', 'in use by another program'],
  ['EADDRNOTAVAIL', 'this machine has no such address'],
  ['EACCES', 'this user may not use ports below 1024'],
  ['ENOTFOUND', 'unknown host name'],
]);

/** Tries to listen on the address. Resolves to the error code, or null if the address is free. */
function listenErrorCode(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)));
  });
}
