import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';

const LOG = JSON.stringify(join(import.meta.dirname, '../src/log.ts'));

/** Standard error of a process that runs these statements on a `log`. */
async function logOf(statements: string): Promise<string[]> {
  const program = `import { openLog } from ${LOG}; const log = openLog('info'); ${statements}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  return (await text(child.stderr)).split('\n').filter((line) => line !== '');
}

test('lines that wait to be written are written when the process ends', async () => {
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

test('lines are written when a fault that nobody caught ends the process', async () => {
  const [first] = await logOf(`log.info('before the fault'); throw new Error('uncaught');`);
  assert.match(first ?? '', /"message":"before the fault"/);
});

test('a warning is written at once, with what came before it, whatever happens to the process then', async () => {
  const lines = await logOf(`log.info('before'); log.warn('careful'); process.kill(process.pid, 'SIGKILL');`);
  assert.equal(lines.length, 2);
  assert.match(lines[1] ?? '', /"level":"warn".*"message":"careful"/);
});

test('lines that come while the process lives are written without waiting for its end', async () => {
  // The process never ends by itself; what is read here makes it end.
  const program = `import { openLog } from ${LOG}; openLog('info').info('hello'); setInterval(() => {}, 60_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  for await (const bytes of child.stderr) {
    assert.match(String(bytes), /"message":"hello"/);
    child.kill('SIGKILL');
  }
});

test('a text of any length is cut, and an error brings its causes', async () => {
  const [line = ''] = await logOf(
    `log.info('x'.repeat(10_000), { error: new Error('outer', { cause: new Error('inner') }) });`,
  );
  const { message, error } = JSON.parse(line) as { message: string; error: string };
  assert.ok(message.length < 4200);
  assert.match(error, /outer[\s\S]*caused by Error: inner/);
});
