import { connect } from 'node:net';
import { createInterface } from 'node:readline';

/**
 * An engine process that executes one command per line from the test's socket. Responds to
 * `GET /health` with the last `health` command, and waits for the first one.
 */

export interface ControlledArgument {
  socketPath: string;
  /** Unix socket of the test. */
  controlPath: string;
}

export type Command =
  | { print: string }
  | { log: string }
  | { health: object | null }
  | { exit: number }
  | { ignoreTermination: true };

// An import would also load Node's `fetch`.
const { createServer } = process.getBuiltinModule('node:http');

// `SupervisorTest` writes the same type.
const { socketPath, controlPath } = JSON.parse(process.argv[2] ?? '') as ControlledArgument;
process.stdin.on('close', () => process.exit()).resume();

let health: object | null = null;
let checks = 0;
const server = createServer((_request, response) => {
  if (health !== null) response.end(JSON.stringify({ ...health, promptTokens: ++checks }));
});

await new Promise<void>((resolve) => server.listen(socketPath, resolve));
const control = connect(controlPath);
createInterface({ input: control }).on('line', (line) => {
  const command = JSON.parse(line) as Command;
  if ('print' in command) process.stdout.write(`${command.print}\n`);
  else if ('log' in command) process.stderr.write(`${command.log}\n`);
  else if ('health' in command) health = command.health;
  else if ('ignoreTermination' in command) process.on('SIGTERM', () => {});
  else process.exit(command.exit);
});
