import { createServer } from 'node:http';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

/**
 * An engine process that does what a test tells it: it connects to the test's socket and carries out one command a
 * line. It answers `GET /health` on its own socket with what it was told last, and never before that.
 */

export interface DrivenArgument {
  socketPath: string;
  /** The test's Unix socket. */
  controlPath: string;
}

export type Command = { print: string } | { health: object | null } | { exit: number };

// Written by the test.
const { socketPath, controlPath } = JSON.parse(process.argv[2] ?? '') as DrivenArgument;
process.stdin.on('close', () => process.exit()).resume();

let health: object | null = null;
let asked = 0;
const server = createServer((_request, response) => {
  if (health !== null) response.end(JSON.stringify({ ...health, promptTokens: ++asked }));
});

await new Promise<void>((resolve) => server.listen(socketPath, resolve));
const control = connect(controlPath);
createInterface({ input: control }).on('line', (line) => {
  const command = JSON.parse(line) as Command;
  if ('print' in command) process.stdout.write(`${command.print}\n`);
  else if ('health' in command) health = command.health;
  else process.exit(command.exit);
});
