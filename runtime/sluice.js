#!/usr/bin/env node
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * In a clone, runs the sources with the Node that `npm ci` installed, and keeps their compiled code as `npm start` does; in
 * the installed package, runs its JavaScript.
 */
const sources = path('../src/main.ts');
if (existsSync(sources)) run(path('../node_modules/.bin/node'), sources);
else await import('../dist/main.js');

function run(node, program) {
  const env = { NODE_COMPILE_CACHE: path('../node_modules/.cache/compiled'), ...process.env };
  const child = spawn(node, [program, ...process.argv.slice(2)], { stdio: 'inherit', env });
  // A terminal sends Ctrl+C to both processes; other signals are sent only to this one.
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
}

function path(relative) {
  return fileURLToPath(new URL(relative, import.meta.url));
}
