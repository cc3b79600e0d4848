import type { Command } from 'commander';
import { prepareHome } from '../config/home.ts';
import { loadConfig } from '../config/load.ts';
import { runningService } from '../database/service-lock.ts';
import { PROGRAM } from '../support/program-name.ts';
import { ensureModel, type AddedModel } from './added-models.ts';
import { download, MODEL_NAMES, openStore } from './download.ts';
import { interruptible } from './interruptible.ts';
import { note, print } from './output.ts';
import { serve, withoutDefaultModel } from './serve.ts';
import { addSettings } from './settings.ts';
import { firstRequest } from './welcome.ts';

/** `sluice run`: downloads a model and serves it. */
export function register(command: Command): void {
  command
    .description(
      'Download a model and serve it. If a service is running on this data directory, the model is added to it; otherwise, this command starts a service.',
    )
    .argument('<model>', 'model to serve')
    .addHelpText(
      'after',
      `${MODEL_NAMES}

A catalog ID can be shortened to the name after the slash. The model becomes the default, unless it
generates no text. It is stored in the data directory and served at every later start, until you remove it
with \`models remove\`.
If this command starts a service without a configuration file, that service serves only added models.
\`serve --help\` lists more environment variables.

Example:
  $ ${PROGRAM} run qwen3-0.6b`,
    )
    .action((source: string) => run(source));
  addSettings(command, ['host', 'port', 'home', 'config']);
}

async function run(source: string): Promise<void> {
  const config = withoutDefaultModel(await loadConfig(process.env));
  await prepareHome(config.home);
  let model: AddedModel = { id: '', output: 'text' };
  await interruptible(async (signal) => {
    const store = await openStore();
    model = await ensureModel(source, config, store, (name) => download(store, name, signal), true);
    // Nothing above notices a signal if the model is downloaded already.
    signal.throwIfAborted();
  });
  // Several services can share a PostgreSQL database, so with PostgreSQL this command always starts one.
  const { id, output } = model;
  const running = config.databaseUrl === null ? runningService(config.home) : null;
  if (running === null) return await serve(id);
  note(`The running service (process ${running.pid}) loads ${id} now.`);
  if (running.url !== null) print(firstRequest(running.url, id, output).join('\n').trimEnd());
}
