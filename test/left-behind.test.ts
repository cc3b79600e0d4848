import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { removeLeftBehind } from './support/left-behind.ts';

test('what a killed run left behind is removed after a day', (t) => {
  const cache = mkdtempSync(join(tmpdir(), 'sluice-cache-'));
  t.after(() => rmSync(cache, { recursive: true }));
  mkdirSync(join(cache, 'sqlite'));
  const [old, recent] = [join(cache, 'sqlite', 'old.db'), join(cache, 'sqlite', 'recent.db')];
  for (const file of [old, recent]) writeFileSync(file, '');
  const before = new Date(Date.now() - 90_000_000);
  utimesSync(old, before, before);
  removeLeftBehind(cache);
  assert.deepEqual([existsSync(old), existsSync(recent)], [false, true]);
});
