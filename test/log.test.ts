import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import * as fc from './support/fast-check.ts';
import { openLog, type LogLevel } from '../src/support/log.ts';

const LOG = JSON.stringify(join(import.meta.dirname, '../src/support/log.ts'));

/** Runs statements with a `log` in a process and returns the lines of its standard error. */
async function logOf(statements: string): Promise<string[]> {
  const program = `import { openLog } from ${LOG}; const log = openLog('info'); ${statements}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  return (await text(child.stderr)).split('\n').filter((line) => line !== '');
}

test('batched lines are written when the process ends', async () => {
  const lines = await logOf(`log.info('one'); log.info('two', { count: 2 });`);
  const read = lines.map((line) => JSON.parse(line) as { message: string; level: string; count?: number });
  assert.deepEqual(
    read.map(({ message, level, count }) => [message, level, count]),
    [
      ['one', 'info', undefined],
      ['two', 'info', 2],
    ],
  );
});

test('batched lines are written when an uncaught error ends the process', async () => {
  const [first] = await logOf(`log.info('before the fault'); throw new Error('uncaught');`);
  assert.match(first ?? '', /"message":"before the fault"/);
});

test('a warning is written immediately, with the lines before it', async () => {
  const lines = await logOf(`log.info('before'); log.warn('careful'); process.kill(process.pid, 'SIGKILL');`);
  assert.equal(lines.length, 2);
  assert.match(lines[1] ?? '', /"level":"warn".*"message":"careful"/);
});

test('a log that cannot be written, such as one on a full disk, does not end the process', async (t) => {
  if (!existsSync('/dev/full')) return t.skip('only Linux has /dev/full');
  const program = `import { openLog } from ${LOG}; const log = openLog('info');
    for (let line = 0; line < 3; line++) log.warn('lost');
    log.info('lost at the end');
    process.on('exit', () => console.log('ended by itself'));`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', openSync('/dev/full', 'w')],
  });
  assert.ok(child.stdout);
  assert.equal(await text(child.stdout), 'ended by itself\n');
});

test('lines that could not be written are written once there is space again, up to a bound', async () => {
  const program = `import { createRequire } from 'node:module';
    const fs = createRequire(${LOG})('node:fs');
    const { writeSync } = fs;
    let full = true;
    fs.writeSync = (...args) => {
      if (full) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC', syscall: 'write' });
      return writeSync(...args);
    };
    const { openLog } = await import(${LOG});
    const log = openLog('info');
    for (let line = 0; line < 10_000; line++) log.warn('while the disk is full', { line, more: 'x'.repeat(1000) });
    full = false;
    log.warn('afterwards');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const lines = (await text(child.stderr)).trimEnd().split('\n');
  assert.match(lines[0] ?? '', /"line":0,/);
  assert.match(lines.at(-1) ?? '', /"message":"afterwards"/);
  assert.ok(lines.length < 5000, `${lines.length} lines`);
});

test('lines are written while the process is running', async () => {
  // The process runs until it is killed.
  const program = `import { openLog } from ${LOG}; openLog('info').info('hello'); setInterval(() => {}, 60_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  for await (const bytes of child.stderr) {
    assert.match(String(bytes), /"message":"hello"/);
    child.kill('SIGKILL');
  }
});

test('a line is one JSON object with the fields of the log and of the line, with any characters', () => {
  const value = fc.oneof(fc.string({ unit: 'binary' }), fc.double(), fc.boolean(), fc.constant(null));
  const fieldsOf = (names: string[]) => fc.dictionary(fc.constantFrom(...names), value);
  const property = fc.property(
    fc.string({ unit: 'binary' }),
    fieldsOf(['account', 'key "quoted"']),
    fieldsOf(['status', 'error\n']),
    (message, common, fields) => {
      const lines: string[] = [];
      openLog('info', { write: (line) => lines.push(line) })
        .with(common)
        .info(message, fields);
      assert.equal(lines.length, 1);
      assert.match(lines[0] ?? '', /^[^\n]*\n$/);
      // The log writes objects.
      const { time, ...rest } = JSON.parse(lines[0] ?? '') as Record<string, unknown>;
      assert.equal(typeof time, 'number');
      assert.deepEqual(rest, JSON.parse(JSON.stringify({ level: 'info', ...common, ...fields, message })));
    },
  );
  fc.assert(property);
});

test('lines below the level are not written', () => {
  const levelsOf = (level: LogLevel) => {
    const levels: unknown[] = [];
    // The log writes objects.
    const write = (line: string) => levels.push((JSON.parse(line) as { level: string }).level);
    const log = openLog(level, { write });
    for (const name of ['debug', 'info', 'warn', 'error'] as const) log[name]('message');
    return levels;
  };
  assert.deepEqual(levelsOf('debug'), ['debug', 'info', 'warn', 'error']);
  assert.deepEqual(levelsOf('warn'), ['warn', 'error']);
  assert.deepEqual(levelsOf('fatal'), []);
  assert.deepEqual(levelsOf('silent'), []);
});

test('long texts are truncated, and errors include their causes', async () => {
  const [line = ''] = await logOf(
    `log.info('x'.repeat(10_000), { error: new Error('outer', { cause: new Error('inner') }) });`,
  );
  const { message, error } = JSON.parse(line) as { message: string; error: string };
  assert.ok(message.length < 4200);
  assert.match(error, /outer[\s\S]*caused by Error: inner/);
});
