import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { Terminal } from '../../src/commands/progress-bar.ts';

/** A terminal that appends to `written`. */
export function terminal(written: string[], columns = 120): Terminal {
  const stream = new Writable({
    decodeStrings: false,
    write: (chunk: string, _encoding, done) => {
      written.push(chunk);
      done();
    },
  });
  // A `Terminal` uses only these members.
  return new Terminal(Object.assign(stream, { columns }) as unknown as NodeJS.WriteStream);
}

const MAIN = join(import.meta.dirname, '../../src/main.ts');

/** For tests on a pseudo-terminal: `script` of util-linux opens it. */
export const NEEDS_PTY = {
  skip:
    !String(spawnSync('script', ['--version']).stdout).includes('util-linux') &&
    'needs `script` of util-linux',
};

/** Runs the program on a pseudo-terminal. `text` returns its output so far. */
export function startOnTerminal(args: readonly string[], env: NodeJS.ProcessEnv) {
  // A shell that waits for the program would also receive its signals, and end with them.
  const command = ['exec', ...[process.execPath, MAIN, ...args].map((word) => `'${word}'`)].join(' ');
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    env: { PATH, NODE_COMPILE_CACHE, TERM: 'xterm', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  return {
    text: () => text,
    /** Sends keys as terminal input. */
    type: (keys: string) => child.stdin.write(keys),
    ended: once(child, 'close').then(([code]: unknown[]) => code),
    [Symbol.dispose]: () => void child.kill('SIGKILL'),
  };
}
