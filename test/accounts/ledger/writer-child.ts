/**
 * Writes a ledger and prints each acknowledged write on a line. `busy`: sends many concurrent requests until it
 * is killed. `hold`: opens 20 requests, waits until it is declared dead, then tries to continue.
 */
import { randomInt } from 'node:crypto';
import { writeSync } from 'node:fs';
import type { Ledger, OpenedRow } from '../../../src/accounts/ledger/ledger.ts';
import { openDatabase } from '../../../src/database/database.ts';
import { Secret } from '../../../src/support/secret.ts';
import { until } from '../../harness.ts';
import { counts, open, newRow, settlement } from './fixture.ts';

const { SLUICE_HOME: home = '', SLUICE_DATABASE_URL: url } = process.env;
const [mode, leaseMs] = process.argv.slice(2);

function print(...words: readonly string[]): void {
  const line = `${words.join(' ')}\n`;
  for (;;) {
    try {
      writeSync(1, line);
      return;
    } catch (error) {
      // The pipe is full.
      if (!(error instanceof Error && 'code' in error && error.code === 'EAGAIN')) throw error;
    }
  }
}

async function request(ledger: Ledger): Promise<void> {
  const opened = newRow({ keyId: `key_${randomInt(3)}`, model: `test/${randomInt(2)}` });
  const moving = counts(randomInt(1, 50));
  await ledger.open(opened, moving);
  print('opened', opened.id);
  for (let token = 0; token < randomInt(20); token++) {
    moving.usage.completionTokens++;
    ledger.checkpoint(opened.id);
    await new Promise(setImmediate);
  }
  const errorCode = [null, null, 'client_disconnected', 'engine_unavailable'][randomInt(4)] ?? null;
  const billed = errorCode !== 'engine_unavailable';
  const ended = settlement({ ...moving, usage: { ...moving.usage }, errorCode, billed });
  const settled = await ledger.settle(opened.id, ended);
  print(settled, opened.id, String(moving.usage.completionTokens));
}

async function busy(ledger: Ledger): Promise<void> {
  const caller = async () => {
    for (;;) await request(ledger);
  };
  await Promise.all(Array.from({ length: 16 }, caller));
}

async function hold(ledger: Ledger): Promise<void> {
  const rows: OpenedRow[] = Array.from({ length: 20 }, () => newRow());
  await Promise.all(rows.map((one) => ledger.open(one, counts(5, 3))));
  print('holding');
  await until(() => fenced);
  await until(() => ledger.health.writable);
  for (const { id } of rows) print(await ledger.settle(id, settlement()), id);
  await request(ledger);
  print('done');
  await ledger[Symbol.asyncDispose]();
}

let fenced = false;
const database = await openDatabase({ home, url: url === undefined ? null : new Secret(url), threads: true });
const ledger = await open(
  database,
  { leaseMs: Number(leaseMs), checkpointMs: 10 },
  { onFenced: () => (fenced = true) },
);
await (mode === 'busy' ? busy(ledger) : hold(ledger));
await database[Symbol.asyncDispose]();
