#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import { addSettings } from './commands/settings.ts';
import { OLDEST_NODE, VERSION } from './support/version.ts';
import { PROGRAM } from './support/program-name.ts';

/**
 * Parses the command line, then loads and runs one file of `commands/`. Exit codes: 0 success, 1 failure, 2 invalid
 * command line.
 */
const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  serve: ['Start the service.', () => import('./commands/serve.ts')],
  run: ['Download a model and serve it.', () => import('./commands/run.ts')],
  chat: ['Chat with a model in the terminal.', () => import('./commands/chat.ts')],
  models: [
    'Add, list, load, unload and remove models, and manage their files.',
    () => import('./commands/models.ts'),
  ],
  accounts: ['Create, list, suspend and close accounts.', () => import('./commands/accounts.ts')],
  users: ['List users, manage operators and reset lost passwords.', () => import('./commands/users.ts')],
  'setup-link': ['Print the setup link for the first operator.', () => import('./commands/setup-link.ts')],
  keys: ['Create, list, update, rotate and revoke API keys.', () => import('./commands/keys.ts')],
  plans: ['List the plans and the number of accounts on each.', () => import('./commands/plans.ts')],
  usage: ['Show usage by hour, day, model, key, account or client.', () => import('./commands/usage.ts')],
  ledger: ['Export the request ledger.', () => import('./commands/ledger.ts')],
  receipt: ['Show one request in detail.', () => import('./commands/receipt.ts')],
  audit: ['Show who changed accounts, keys, plans, users and models.', () => import('./commands/audit.ts')],
  alerts: ['List and silence alerts, and send a test message.', () => import('./commands/alerts.ts')],
  replicas: [
    'List the replicas of models, and take them out of service for maintenance.',
    () => import('./commands/replicas.ts'),
  ],
  database: ['Migrate, back up or restore the database.', () => import('./commands/database.ts')],
  secrets: ['Change the key that encrypts secrets.', () => import('./commands/secrets.ts')],
  config: ['Check or print the configuration.', () => import('./commands/config.ts')],
  doctor: [
    'Check this machine and the configuration, and suggest fixes.',
    () => import('./commands/doctor.ts'),
  ],
  engine: [
    'Run one engine as a replica for a service on this or another machine.',
    () => import('./commands/engine.ts'),
  ],
};

/** The summary is shown in the list of commands, which is printed without loading any. A command may describe itself in more detail. */
type CommandEntry = readonly [summary: string, load: () => Promise<{ register: (command: Command) => void }>];

async function main(args: readonly string[]): Promise<void> {
  const { http_proxy, HTTP_PROXY, https_proxy, HTTPS_PROXY } = process.env;
  if (http_proxy || HTTP_PROXY || https_proxy || HTTPS_PROXY)
    (await import('./support/proxy-agent.ts')).useProxies(process.env);
  const program = new Command('sluice')
    .description('An OpenAI-compatible inference service with embedded llama.cpp.')
    .version(VERSION)
    .showHelpAfterError()
    .exitOverride()
    .addHelpText(
      'after',
      `\nExamples:\n  $ ${PROGRAM} serve\n  $ ${PROGRAM} keys create --name laptop\n\nRun \`${PROGRAM} <command> --help\` for the options of a command.`,
    );
  addSettings(program, ['home', 'config']);
  // These options may precede the name of the command.
  const [first, second] = program.parseOptions([...args]).operands;
  const requested = first === 'help' ? second : first;
  for (const [name, [summary, load]] of Object.entries(COMMANDS)) {
    const command = program.command(name).description(summary);
    if (name === requested) (await load()).register(command);
  }
  // For `help` with an unknown command, commander would print the general help. Given only the unknown command, it
  // reports an error.
  const known = requested === undefined || Object.hasOwn(COMMANDS, requested);
  await program.parseAsync(known ? args : [requested], { from: 'user' });
}

/** Prints the message of an expected error, or the stack of a bug. Commander has already printed its own errors. */
function reportError(error: unknown): void {
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode === 0 ? 0 : 2;
    return;
  }
  process.exitCode = 1;
  const text = error instanceof Error ? (isBug(error) ? error.stack : error.message) : String(error);
  process.stderr.write(`${text}\n`);
}

/**
 * Returns whether the class of the error is built into the language or Node. Expected errors have their own classes, and
 * the message of a system error, such as a missing permission, names the path or the address.
 */
function isBug(error: Error): boolean {
  return !('syscall' in error) && (error.name in globalThis || error.name === 'AssertionError');
}

/**
 * Errors of the output do not end the process: a service continues without it. A command fails if its result cannot be
 * written, unless the reader has closed the pipe, as `head` does.
 */
process.stderr.on('error', () => {});
process.stdout
  .on('error', () => {})
  .once('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return;
    process.exitCode = 1;
    process.stderr.write(`Cannot write the output: ${error.message}\n`);
  });

// npm only warns about an old Node version, which cannot parse the commands.
if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE) {
  process.stderr.write(`Sluice needs Node ${OLDEST_NODE} or newer; this is ${process.versions.node}.\n`);
  process.exitCode = 1;
} else {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    reportError(error);
  }
}
