#!/usr/bin/env node
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** `npx sluice` in a clone: runs the sources on the Node that `npm ci` installed, whichever Node runs this file. */
const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const child = spawn(path('../node_modules/.bin/node'), [path('../src/main.ts'), ...process.argv.slice(2)], {
  stdio: 'inherit',
});
// A terminal sends Ctrl+C to both processes; other senders signal this one only.
process.on('SIGINT', () => {});
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('error', (error) => {
  console.error(`Sluice cannot start: ${error.message}. Run \`npm ci\` first.`);
  process.exitCode = 1;
});
child.on('exit', (code, signal) => {
  process.removeAllListeners();
  if (signal === null) process.exitCode = code;
  else process.kill(process.pid, signal);
});
