/**
 * The process between the service and a program that it starts (`models[].command`). It leads a process group, which has
 * the program and its children, and ends all of it when the program exits, on SIGTERM, and when its standard input closes
 * because the service has exited. Its reports go to standard output; the output of the program, in bounds, to standard error.
 */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import type { Readable } from 'node:stream';
import type { ChildSettings } from './child.ts';
import type { EngineReport } from './engine.ts';
import { GUARDIAN_SETTINGS, KILL_SIGNAL, type ProgramOptions } from './engine-process.ts';

/** Time between SIGTERM and SIGKILL after the service has exited, in milliseconds. A running service sends SIGKILL itself. */
const EXIT_TIMEOUT_MS = 2000;

/** How long the output of a program is read after it has exited, in milliseconds. Its children may keep it open. */
const LAST_OUTPUT_MS = 300;

/** Interval at which processes that were killed are looked for, in milliseconds. */
const KILL_MS = 20;

/** Bounds of the output: characters of a line, lines per second, and lines in the reason of an exit. */
const MAX_LINE = 2000;
const MAX_LINES = 50;
const REASON_LINES = 5;

/** Interval at which the memory of the program is measured, in milliseconds. */
const MEMORY_MS = 2000;

const { [GUARDIAN_SETTINGS]: json = '', ...inherited } = process.env;
const { engine, socketPath } = JSON.parse(json) as ChildSettings<ProgramOptions>;
const [file = '', ...args] = engine.run;
const lastLines: string[] = [];
let linesLeft = MAX_LINES;
let isStopping = false;

// The service may have exited. Then standard input closes too.
for (const stream of [process.stdin, process.stdout, process.stderr]) stream.on('error', () => {});
process.stdin
  .on('close', () => {
    stop();
    setTimeout(kill, EXIT_TIMEOUT_MS);
  })
  .resume();
process.on('SIGTERM', stop).once(KILL_SIGNAL, kill);

const port = engine.run.some((text) => text.includes('{port}')) ? await freePort() : 0;
if (isStopping) process.exit();
const values: Record<string, string> = { host: '127.0.0.1', port: `${port}`, socket: socketPath };
const child = spawn(
  file,
  args.map((text) => text.replaceAll(/\{(host|port|socket)\}/g, (_, name: string) => values[name] ?? '')),
  { stdio: ['ignore', 'pipe', 'pipe'], env: { ...inherited, ...engine.env } },
);
child.once('error', (error: NodeJS.ErrnoException) => {
  const why = new Map([
    ['ENOENT', 'it does not exist'],
    ['EACCES', 'it may not be executed'],
  ]).get(error.code ?? '');
  end(`cannot start the program \`${file}\`: ${why ?? error.message}`, false);
});
child.once('exit', (code, signal) => {
  const exit = signal ? `was killed by ${signal}` : `exited with code ${code}`;
  const onEnd = () => end([`the program ${exit}`, ...lastLines].join('\n'), true);
  child.once('close', onEnd);
  setTimeout(onEnd, LAST_OUTPUT_MS);
});
for (const stream of [child.stdout, child.stderr]) relay(stream);
report({ event: 'started', port });
setInterval(countLines, 1000);
setInterval(measure, MEMORY_MS);

function report(event: EngineReport, onWritten?: () => void): void {
  process.stdout.write(`${JSON.stringify(event)}\n`, onWritten);
}

/** Reports why the program ended, and ends the group. */
function end(reason: string, retry: boolean): void {
  report({ event: 'failed', reason, retry }, kill);
}

/** Ends the group. This process exits last, when the memory of the others is free. */
function kill(): void {
  if (process.platform !== 'linux') return signalGroup('SIGKILL');
  const pids = otherMembers();
  if (pids.length === 0) process.exit();
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      continue; // It has exited.
    }
  }
  setTimeout(kill, KILL_MS);
}

function stop(): void {
  // The signal for the group comes back to this process.
  if (isStopping) return;
  isStopping = true;
  signalGroup('SIGTERM');
}

function signalGroup(signal: NodeJS.Signals): void {
  process.kill(-process.pid, signal);
}

/** Returns a port that is free now. If another process takes it meanwhile, the program exits, and its next start gets another. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port: free } = server.address() as AddressInfo; // A TCP server has one.
  await new Promise((resolve) => server.close(resolve));
  return free;
}

/** Writes the lines of the program's output. Never keeps more than a line, and reads what it leaves out too. */
function relay(stream: Readable): void {
  let rest = '';
  stream.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split(/[\r\n]+/);
    rest = (lines.pop() ?? '').slice(0, MAX_LINE);
    for (const line of lines) writeLine(line);
  });
  stream.on('end', () => writeLine(rest));
}

function writeLine(text: string): void {
  const line = text.trimEnd().slice(0, MAX_LINE);
  if (line === '') return;
  lastLines.push(line);
  if (lastLines.length > REASON_LINES) lastLines.shift();
  if (--linesLeft >= 0) process.stderr.write(`${line}\n`);
}

function countLines(): void {
  if (linesLeft < 0) process.stderr.write(`(${-linesLeft} lines of output left out)\n`);
  linesLeft = MAX_LINES;
}

/** Reports the memory of the program and its children. */
function measure(): void {
  if (process.platform !== 'linux') return;
  let residentBytes = 0;
  let anonymousBytes = 0;
  for (const pid of otherMembers()) {
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      const bytes = (name: string) =>
        1024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
      residentBytes += bytes('VmRSS');
      anonymousBytes += bytes('RssAnon');
    } catch {
      continue; // It has exited.
    }
  }
  report({ event: 'memory', residentBytes, anonymousBytes });
}

/** Returns the IDs of the running processes of the group, without this one. Only Linux has `/proc`. */
function otherMembers(): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      if (!(pid > 0) || pid === process.pid) return false;
      try {
        // The name of the program, in parentheses, may have spaces.
        const [state, , group] =
          readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ') ?? [];
        return Number(group) === process.pid && state !== 'Z';
      } catch {
        return false;
      }
    });
}
