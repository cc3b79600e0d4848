import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { ScheduledBackups } from '../../src/database/scheduled-backups.ts';
import { openLog } from '../../src/log.ts';
import { temporaryFolder } from '../harness.ts';
import { testDatabases, type TestDatabase } from '../servers.ts';

const HOUR_MS = 3_600_000;

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    test('a backup is made only when one is due, counting backups of other instances, and old backups are deleted', async () => {
      await using database = await kind.open();
      await using folder = await temporaryFolder();
      const directory = join(folder.path, 'backups');
      await using here = scheduled(database, directory);
      await using other = scheduled(database, directory);
      for (let hour = 0; hour < 5; hour++) {
        here.clock.now = other.clock.now = Date.UTC(2026, 10, 23, hour);
        await here.backups.runIfDue();
        await other.backups.runIfDue();
        here.clock.now += HOUR_MS - 1;
        await here.backups.runIfDue();
      }
      writeFileSync(join(directory, 'notes.db'), 'mine');
      assert.deepEqual(readdirSync(directory), [
        'notes.db',
        'sluice-2026-11-23T02-00-00Z.db',
        'sluice-2026-11-23T03-00-00Z.db',
        'sluice-2026-11-23T04-00-00Z.db',
      ]);
      const { lastAt, failedAt } = other.backups.status;
      assert.deepEqual([lastAt, failedAt], [Date.UTC(2026, 10, 23, 4), null]);
      assert.equal(here.log().match(/"message":"database backed up"/g)?.length, 5);
    });

    test('a failure is logged, is in the status, and is retried', async () => {
      await using database = await kind.open();
      await using folder = await temporaryFolder();
      const directory = join(folder.path, 'backups');
      writeFileSync(directory, 'not a directory');
      await using here = scheduled(database, directory);
      await here.backups.runIfDue();
      assert.match(here.backups.status.reason ?? '', /EEXIST/);
      assert.equal(here.backups.status.failedAt, here.clock.now);
      assert.match(here.log(), /"level":"error".*the scheduled backup failed/);
      rmSync(directory);
      mkdirSync(directory);
      await here.backups.runIfDue();
      assert.deepEqual([here.backups.status.reason, here.backups.status.failedAt], [null, null]);
      assert.equal(readdirSync(directory).length, 1);
    });
  });
}

function scheduled({ location }: TestDatabase, directory: string) {
  const lines: string[] = [];
  const clock = { now: Date.UTC(2026, 10, 23) };
  const backups = new ScheduledBackups({
    location,
    directory,
    settings: { everyHours: 1, keep: 3 },
    log: openLog('info', { write: (line) => void lines.push(line) }),
    now: () => clock.now,
  });
  const dispose = () => backups[Symbol.asyncDispose]();
  return { backups, clock, log: () => lines.join(''), [Symbol.asyncDispose]: dispose };
}
