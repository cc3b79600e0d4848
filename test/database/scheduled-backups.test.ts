import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { ScheduledBackups } from '../../src/database/scheduled-backups.ts';
import { openLog } from '../../src/support/log.ts';
import { temporaryFolder } from '../harness.ts';
import { SQLITE, testDatabases, type TestDatabase } from '../support/servers.ts';

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
        '.lock',
        'notes.db',
        'sluice-2026-11-23T02-00-00Z.db',
        'sluice-2026-11-23T03-00-00Z.db',
        'sluice-2026-11-23T04-00-00Z.db',
      ]);
      const { lastAt, failedAt } = other.backups.status;
      assert.deepEqual([lastAt, failedAt], [Date.UTC(2026, 10, 23, 4), null]);
      assert.equal(here.log().match(/"message":"database backed up"/g)?.length, 5);
    });

    test('backups that were made while the clock was ahead neither delay later ones nor outlive them', async () => {
      await using database = await kind.open();
      await using folder = await temporaryFolder();
      const directory = join(folder.path, 'backups');
      await using here = scheduled(database, directory);
      const run = async (now: number) => {
        here.clock.now = now;
        await here.backups.runIfDue();
        return backupsIn(directory).map((name) => name.slice('sluice-'.length, '2026-11-23T00'.length + 7));
      };
      await run(Date.UTC(2030, 0, 1, 0));
      await run(Date.UTC(2030, 0, 1, 1));
      assert.deepEqual(await run(Date.UTC(2026, 10, 23, 0)), [
        '2026-11-23T00',
        '2030-01-01T00',
        '2030-01-01T01',
      ]);
      assert.equal(here.backups.status.lastAt, Date.UTC(2026, 10, 23, 0));
      assert.match(here.log(), /"level":"warn".*backups with a future time/);
      await run(Date.UTC(2026, 10, 23, 1));
      assert.deepEqual(await run(Date.UTC(2026, 10, 23, 2)), [
        '2026-11-23T00',
        '2026-11-23T01',
        '2026-11-23T02',
      ]);
    });

    test('a clock that is a little behind that of another instance does not make another backup', async () => {
      await using database = await kind.open();
      await using folder = await temporaryFolder();
      await using here = scheduled(database, folder.path);
      await using other = scheduled(database, folder.path);
      other.clock.now += 60_000;
      await other.backups.runIfDue();
      await here.backups.runIfDue();
      assert.equal(backupsIn(folder.path).length, 1);
    });

    test('instances that share a directory make one backup at a time, and none that another has made', async () => {
      await using database = await kind.open();
      await using folder = await temporaryFolder();
      // What an instance left that was killed.
      writeFileSync(join(folder.path, 'sluice-2026-11-22T00-00-00Z.db.0123abcd.partial-journal'), '');
      await using here = scheduled(database, folder.path);
      await using other = scheduled(database, folder.path);
      other.clock.now += 2000;
      await Promise.all([here.backups.runIfDue(), other.backups.runIfDue()]);
      assert.equal(backupsIn(folder.path).length, 1);
      assert.deepEqual([here.backups.status.failedAt, other.backups.status.failedAt], [null, null]);
      assert.equal(readdirSync(folder.path).filter((name) => name.includes('partial')).length, 0);
    });

    test('a failure is over when another instance makes a backup', async () => {
      await using database = await kind.open();
      await using folder = await temporaryFolder();
      const directory = join(folder.path, 'backups');
      writeFileSync(directory, 'not a directory');
      await using here = scheduled(database, directory);
      await using other = scheduled(database, directory);
      await here.backups.runIfDue();
      assert.equal(here.backups.status.failedAt, here.clock.now);
      rmSync(directory);
      await other.backups.runIfDue();
      await here.backups.runIfDue();
      assert.deepEqual([here.backups.status.failedAt, here.backups.status.reason], [null, null]);
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
      assert.equal(backupsIn(directory).length, 1);
    });
  });
}

test('a database whose write-ahead log was moved away is not opened, which would create another log', async () => {
  await using database = await SQLITE.open();
  const { location } = database;
  assert.ok(location.kind === 'sqlite');
  await using folder = await temporaryFolder();
  await using here = scheduled(database, join(folder.path, 'backups'));
  const [log, moved] = [`${location.path}-wal`, `${location.path}-moved`];
  renameSync(log, moved);
  await here.backups.runIfDue();
  assert.match(here.backups.status.reason ?? '', /was deleted or moved while it was in use/);
  assert.equal(existsSync(log), false);
  renameSync(moved, log);
  await here.backups.runIfDue();
  assert.equal(here.backups.status.reason, null);
});

function backupsIn(directory: string): string[] {
  return readdirSync(directory).filter((name) => name !== '.lock');
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
