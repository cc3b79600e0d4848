import { text as readAll } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import type { Command } from 'commander';
import { createKey, revokeKey } from '../accounts/key-table.ts';
import { prepareHome } from '../config/home.ts';
import { catalogName } from '../serving/model-table.ts';
import { loadConfig, loadSecrets } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { DEFAULT_ACCOUNT_ID } from '../database/schema.ts';
import { runningService } from '../database/service-lock.ts';
import { openLog } from '../support/log.ts';
import { modelNamed } from '../support/nearest.ts';
import { PROGRAM } from '../support/program-name.ts';
import type { Secret } from '../support/secret.ts';
import { Service } from '../service.ts';
import { ensureModel, readAdded } from './added-models.ts';
import { ChatClient, ChatError } from './chat/client.ts';
import { Conversation } from './chat/conversation.ts';
import { chatInteractively } from './chat/interactive.ts';
import { download, MODEL_NAMES, openStore } from './download.ts';
import { interruptible } from './interruptible.ts';
import { commandLineActor, openConfiguredDatabase } from './open.ts';
import { note } from './output.ts';
import { isSluice, urlOf } from './port.ts';
import { Terminal } from './progress-bar.ts';
import { waitUntilReady, withoutDefaultModel } from './serve.ts';
import { addSettings } from './settings.ts';
import { TerminalLog } from './terminal-log.ts';

interface ChatFlags {
  system?: string;
  account: string;
  url?: string;
  verbose?: true;
}

/** `sluice chat`: a conversation with a model in the terminal, or one question. */
export function register(command: Command): void {
  command
    .description(
      'Chat with a model in the terminal, or ask one question. Uses the running service, or starts one until the chat ends.',
    )
    .argument('[model]', 'model to chat with; downloaded if necessary (default: the default model)')
    .argument('[question...]', 'ask this, print the response and exit')
    .option('--system <text>', 'system message')
    .option('--account <account>', 'ID of the account that the requests belong to', DEFAULT_ACCOUNT_ID)
    .option('--url <url>', 'URL of a service on another machine; set SLUICE_API_KEY to a key of it')
    .option('--verbose', 'print tokens and times after each response')
    .addHelpText(
      'after',
      `${MODEL_NAMES}

An ID can be shortened to the name after the slash. A single argument that is no model is a question. Text that is
piped to the command belongs to the question.

Examples:
  $ ${PROGRAM} chat
  $ ${PROGRAM} chat qwen3-0.6b
  $ ${PROGRAM} chat "Why is the sky blue?"
  $ ${PROGRAM} chat qwen3-0.6b "Summarize this." < report.txt`,
    )
    .action(chat);
  addSettings(command, ['home', 'config']);
}

async function chat(first: string | undefined, rest: string[], flags: ChatFlags): Promise<void> {
  const isQuestion = first !== undefined && rest.length === 0 && !(await isModel(first, flags));
  const model = isQuestion ? null : (first ?? null);
  const question = await questionOf(isQuestion ? [first] : rest);
  if (question === null) return await chatOnTerminal(model, flags);
  await interruptible(async (signal) => {
    await using connection = await connect(model, flags, signal);
    // The rest of the response would cost tokens although nobody reads it, as after `| head`.
    const unread = new AbortController();
    process.stdout.once('error', () => unread.abort());
    await conversationOn(connection, flags).send(question, AbortSignal.any([signal, unread.signal]));
    signal.throwIfAborted();
  }, '\nInterrupted.');
}

/** Whether the only argument can be the name of a model, instead of a question. */
async function isModel(text: string, { url }: ChatFlags): Promise<boolean> {
  if (/\s/.test(text.trim())) return false;
  if (/[/:]|\.gguf$/.test(text) || catalogName(text) !== null) return true;
  const config = await loadConfig(process.env, 'none');
  const configured = [...config.file.models, ...(await readAdded(config))].map(({ id }) => id);
  if (modelNamed(text, [...configured, ...Object.keys(config.file.aliases)]) !== null) return true;
  // A running service can have another configuration. Without a key, it may not list its models.
  const running = url ?? (await findService(config));
  if (running === null) return false;
  const key = (url !== undefined && process.env.SLUICE_API_KEY) || null;
  const client = new ChatClient(running, () => Promise.resolve(key));
  const served = await client.models(AbortSignal.timeout(LIST_MS)).catch(() => null);
  return served === null || modelNamed(text, served) !== null;
}

/** Time to list the models of a running service, in milliseconds. */
const LIST_MS = 5000;

async function chatOnTerminal(model: string | null, flags: ChatFlags): Promise<void> {
  await using owned = new AsyncDisposableStack();
  const connection = owned.use(
    await interruptible((signal) => connect(model, flags, signal), '\nInterrupted.'),
  );
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stop.abort());
  const { stdin: input, stdout: output } = process;
  const conversation = conversationOn(connection, flags);
  const { client } = connection;
  await chatInteractively({ client, conversation, input, output, signal: stop.signal });
}

function conversationOn({ client, model }: Connection, { system, verbose }: ChatFlags): Conversation {
  return new Conversation({
    client,
    model,
    system: system ?? null,
    output: process.stdout,
    notes: process.stderr,
    terminal: Terminal.of(process.stderr),
    verbose: verbose === true,
    reasoning: process.stdout.isTTY,
  });
}

/** Returns the question of the arguments and the piped text; null if a user types messages. */
async function questionOf(words: readonly string[]): Promise<string | null> {
  const piped = process.stdin.isTTY ? '' : (await readAll(process.stdin)).trim();
  const question = [words.join(' ').trim(), piped].filter((part) => part !== '').join('\n\n');
  if (question !== '') return question;
  if (process.stdin.isTTY && process.stdout.isTTY) return null;
  throw new ChatError('There is no question. Add one as an argument, or pipe it to the command.');
}

/** A service that can be called, and the model to call. */
interface Connection extends AsyncDisposable {
  client: ChatClient;
  model: string;
}

async function connect(requested: string | null, flags: ChatFlags, signal: AbortSignal): Promise<Connection> {
  if (flags.url !== undefined) return await connectTo(flags.url, requested, signal);
  await using owned = new AsyncDisposableStack();
  const config = await loadConfig(process.env, 'none');
  await prepareHome(config.home);
  const aliases = Object.keys(config.file.aliases);
  const running = await findService(config);
  let added: string | null = null;
  let url = running;
  if (url === null) {
    const models = [...config.file.models, ...(await readAdded(config))].map(({ id }) => id);
    if (requested !== null && modelNamed(requested, [...models, ...aliases]) === null)
      added = await addModel(requested, config, signal);
    url = await startService(added !== null, signal, owned);
  }
  const key = owned.use(new TemporaryKey(flags.account));
  const client = new ChatClient(url, () => key.reveal());
  const models = await client.models(signal);
  const served = requested === null ? models[0] : modelNamed(requested, [...models, ...aliases]);
  const model = added ?? served ?? (requested === null ? null : await addModel(requested, config, signal));
  if (model === null)
    throw new ChatError(`The service has no model that generates text. Add one: ${PROGRAM} run <model>`);
  // A running service notices an added model within a second or two.
  while (![...(await client.models(signal)), ...aliases].includes(model))
    await pause(POLL_MS, undefined, { signal });
  const resources = owned.move();
  return { client, model, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

/** Connects to a service on another machine. It resolves or refuses names that it does not list. */
async function connectTo(url: string, requested: string | null, signal: AbortSignal): Promise<Connection> {
  const key = process.env.SLUICE_API_KEY ?? '';
  if (key === '')
    throw new ChatError(
      '`--url` needs an API key of that service in the environment variable SLUICE_API_KEY.',
    );
  const client = new ChatClient(url, () => Promise.resolve(key));
  const models = await client.models(signal);
  const model = requested === null ? models[0] : (modelNamed(requested, models) ?? requested);
  if (model === undefined) throw new ChatError('The service has no model that generates text.');
  return { client, model, [Symbol.asyncDispose]: () => Promise.resolve() };
}

/** Returns the URL of the running service on this data directory or database; null if none runs on this data directory. */
async function findService({ databaseUrl, home, host, port, file }: Config): Promise<string | null> {
  if (databaseUrl === null) return runningService(home)?.url ?? null;
  if (port !== 0 && (await isSluice(host, port))) return urlOf(host, port);
  if (file.publicUrl !== undefined) return file.publicUrl;
  throw new ChatError(
    `No service listens on ${urlOf(host, port)}. Name an instance of the service on this PostgreSQL database with \`--url\`.`,
  );
}

/**
 * Starts a service in this process, on a free port of this machine, that only generates. Returns its URL. `onlyAdded`:
 * without the default model.
 */
async function startService(
  onlyAdded: boolean,
  signal: AbortSignal,
  owned: AsyncDisposableStack,
): Promise<string> {
  note('Starting a service until the chat ends …');
  const log = openLog('error', new TerminalLog(note, process.stderr.isTTY && process.stderr.hasColors()));
  const configured = await loadConfig(process.env, 'models');
  const config = onlyGenerating(onlyAdded ? withoutDefaultModel(configured) : configured);
  // All of them, because programs of the configuration must not get those that this service does not need either.
  const secrets = loadSecrets(configured, process.env);
  const service = owned.use(
    await Service.open({ config, secrets, env: process.env, log, signal, hasDuties: false }),
  );
  process.once('exit', () => service.killEngines());
  const terminal = Terminal.of(process.stderr);
  const isReady = await waitUntilReady(service, signal, { terminal, terminalLog: null, print: note }, log);
  signal.throwIfAborted();
  if (!isReady) throw new ChatError('The service could not be started.');
  return service.localUrl;
}

/** Returns the configuration without what needs a fixed address or the secrets of the service. */
function onlyGenerating(config: Config): Config {
  const { alerts, metrics, signIn, ...file } = config.file;
  return {
    ...config,
    host: '127.0.0.1',
    port: 0,
    tracing: null,
    file: {
      ...file,
      alerts: { ...alerts, email: [], webhooks: [] },
      backup: undefined,
      metrics: { ...metrics, port: undefined },
      signIn: { ...signIn, providers: [] },
      smtp: undefined,
    },
  };
}

/** Downloads a model, if necessary, and adds it to the service. Returns its ID. */
async function addModel(source: string, config: Config, signal: AbortSignal): Promise<string> {
  const store = await openStore();
  const { id, output } = await ensureModel(
    source,
    config,
    store,
    (name) => download(store, name, signal),
    false,
  );
  signal.throwIfAborted();
  if (output !== 'text') throw new ChatError(`${id} generates no text. Choose a model that generates text.`);
  return id;
}

/** Time between questions whether an added model is there, in milliseconds. */
const POLL_MS = 250;

/** Validity of a key, in milliseconds, if the program does not revoke it at its end. */
const KEY_MS = 3_600_000;

/** Keys are replaced this long before they expire, in milliseconds. */
const RENEW_MS = 300_000;

/** A key for the requests of this command. Lists do not show it by default. */
class TemporaryKey implements AsyncDisposable {
  readonly #account: string;
  #current: { id: string; key: Secret; renewAt: number } | null = null;

  constructor(account: string) {
    this.#account = account;
  }

  /** Returns a key that is valid for the next minutes. */
  async reveal(): Promise<string> {
    if (this.#current === null || this.#current.renewAt < Date.now()) {
      const expiresAt = Date.now() + KEY_MS;
      const settings = {
        name: 'sluice chat',
        purpose: 'playground',
        accountId: this.#account,
        expiresAt,
      } as const;
      await using database = await openConfiguredDatabase();
      const { key, record } = await createKey(database, settings, commandLineActor());
      this.#current = { id: record.id, key, renewAt: expiresAt - RENEW_MS };
    }
    return this.#current.key.reveal();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#current === null) return;
    await using database = await openConfiguredDatabase();
    await revokeKey(database, this.#current.id, commandLineActor());
  }
}
