/**
 * Runs `sluice` commands for a test file in one process, because loading the modules is most of the cost of a command.
 * Receives the arguments and environment of each command, and sends its output and exit code in the same order.
 */
import { join } from 'node:path';
import type { CliCall, ProcessResult } from './harness.ts';
import { registerScripted } from './support/scripted-engine/options.ts';

const MAIN = join(import.meta.dirname, '..', 'src', 'main.ts');

registerScripted();

let calls = 0;
let last = Promise.resolve();
process.on('message', (call: CliCall) => {
  last = last.then(async () => void process.send?.(await run(call)));
});
process.on('disconnect', () => process.exit());

async function run({ args, env }: CliCall): Promise<ProcessResult> {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  process.argv.splice(2, Infinity, ...args);
  process.exitCode = undefined;
  const stdout = capture(process.stdout);
  const stderr = capture(process.stderr);
  // The query makes Node run the file again, while the modules that it imports stay loaded.
  calls += 1;
  await import(`${MAIN}?${calls}`);
  return { stdout: stdout(), stderr: stderr(), code: exitCode() };
}

function exitCode(): number {
  return Number(process.exitCode ?? 0);
}

/** Collects what is written to a stream. The returned function stops that and returns the text. */
function capture(stream: NodeJS.WriteStream): () => string {
  const write = stream.write.bind(stream);
  let text = '';
  stream.write = (chunk: string | Uint8Array) => {
    text += String(chunk);
    return true;
  };
  return () => {
    stream.write = write;
    // Each run adds a listener.
    stream.removeAllListeners('error');
    return text;
  };
}
