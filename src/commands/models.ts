import { setTimeout } from 'node:timers/promises';
import type { Command } from 'commander';
import { availableMemory } from '../models/memory.ts';
import { loadConfig } from '../config/load.ts';
import { ServiceError } from '../core/errors.ts';
import { modelNamed } from '../support/nearest.ts';
import { CATALOG, type CatalogModel } from '../models/catalog.ts';
import { PullError } from '../models/errors.ts';
import { describeSource } from '../models/source.ts';
import type { LocalModel, ModelStore } from '../models/store.ts';
import { addModel, listAdded, removeAdded, servedFiles, setLoaded, type AddFlags } from './added-models.ts';
import { note, print, printJson, printTable } from './output.ts';
import { download, MODEL_NAMES, openBar, openStore } from './download.ts';
import { interruptible } from './interruptible.ts';
import { formatBytes } from './progress-bar.ts';
import { catalogMemory } from '../serving/memory-fit.ts';
import { PROGRAM } from '../support/program-name.ts';
import { wholeNumber } from './whole-number.ts';

/** `sluice models …`: manages model files and added models in the data directory, with or without a running service. */
export function register(models: Command): void {
  models
    .command('add')
    .description(
      'Download a model and add it to the service. If the service is running, it then loads the model.',
    )
    .argument('<model>', 'model to add')
    .option(
      '--id <id>',
      'ID that callers send, `local/` precedes a name without a slash (default: derived from the model)',
    )
    .option('--prompt-price <usd>', 'USD per million prompt tokens (default: 0)')
    .option('--cached-price <usd>', 'USD per million cached prompt tokens (default: the prompt price)')
    .option('--completion-price <usd>', 'USD per million completion tokens (default: 0)')
    .option('--context-tokens <number>', 'context length of each slot', wholeNumber(0))
    .option('--slots <number>', 'number of requests that generate at the same time', wholeNumber(0))
    .option('--keep', 'keep the model in memory: do not unload it for other models or when it is not used')
    .addHelpText(
      'after',
      `${MODEL_NAMES}\n\nA catalog ID can be shortened to the name after the slash.\n\nExample:\n  $ ${PROGRAM} models add qwen3-0.6b`,
    )
    .action(add);
  for (const [name, description, loaded] of [
    ['load', 'Load an added model that was unloaded.', true],
    [
      'unload',
      'Unload an added model. It stays unloaded until `models load`. Running requests have 10 seconds to finish.',
      false,
    ],
  ] as const) {
    models
      .command(name)
      .description(description)
      .argument('<model>', 'ID of the model')
      .addHelpText('after', `\nExample:\n  $ ${PROGRAM} models ${name} Qwen/Qwen3-0.6B`)
      .action((id: string) => setLoaded(id, loaded));
  }
  models
    .command('pull')
    .description('Download a model, or resume an interrupted download.')
    .argument('<model>', 'model to download')
    .option('--json', 'print the downloaded model as JSON')
    .addHelpText(
      'after',
      `${MODEL_NAMES}

Environment variables: HF_TOKEN for private and gated files, HF_ENDPOINT for a Hub mirror, HTTPS_PROXY for a proxy.

Example:
  $ ${PROGRAM} models pull Qwen/Qwen3-0.6B`,
    )
    .action(pull);
  models
    .command('list')
    .description(
      'List the downloaded models and the files that the service uses, the added models, or the catalog.',
    )
    .option('--available', 'list the catalog: models that can be downloaded by ID')
    .option('--added', 'list the models that were added to the service')
    .option('--json', 'print a JSON array')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} models list --available`)
    .action(list);
  models
    .command('remove')
    .description(
      'Remove an added model and delete its downloaded file, or delete the files of a downloaded model, including partial downloads. A running service keeps using the files of a configured model until it stops.',
    )
    .argument('<model>', 'model to remove')
    .addHelpText('after', `${MODEL_NAMES}\n\nExample:\n  $ ${PROGRAM} models remove Qwen/Qwen3-0.6B`)
    .action(remove);
  models
    .command('verify')
    .description('Check the SHA-256 of downloaded model files.')
    .argument('[model]', 'model to verify (default: all downloaded models)')
    .option('--json', 'print a JSON array')
    .addHelpText('after', `${MODEL_NAMES}\n\nExample:\n  $ ${PROGRAM} models verify`)
    .action(verify);
}

async function add(source: string, flags: AddFlags): Promise<void> {
  await interruptible(async (signal) => {
    const store = await openStore();
    await addModel(source, flags, store, async (name) => {
      await download(store, name, signal);
    });
  });
}

async function pull(name: string, flags: { json?: true }): Promise<void> {
  await interruptible(async (signal) => {
    const model = await download(await openStore(), name, signal);
    if (flags.json) printJson(asJson(model));
    else print(model.file);
  });
}

async function list(flags: { available?: true; added?: true; json?: true }): Promise<void> {
  if (flags.added) return await listAdded(flags.json === true);
  const store = await openStore();
  const downloaded = await store.list();
  if (flags.available) {
    return listCatalog(new Set(downloaded.map((model) => model.id)), flags.json === true);
  }
  const models = [...downloaded, ...(await servedFiles(store))];
  if (flags.json) {
    printJson(models.map(asJson));
  } else if (models.length === 0) {
    note(`No models downloaded yet. Download one: ${PROGRAM} models pull <model>`);
  } else {
    printTable(
      models.map(({ id, sizeBytes, source, file }) => ({
        ID: id ?? '-',
        SIZE: formatBytes(sizeBytes),
        SOURCE: source,
        FILE: file,
      })),
    );
  }
}

function listCatalog(pulled: ReadonlySet<string | null>, json: boolean): void {
  if (json) {
    printJson(CATALOG.map((model) => ({ ...catalogJson(model), pulled: pulled.has(model.id) })));
    return;
  }
  printTable(
    CATALOG.map((model) => ({
      ID: model.id,
      SIZE: formatBytes(model.sizeBytes ?? model.sizeGb * 1e9),
      MEMORY: `${memoryGb(model).toFixed(1)} GB`,
      CONTEXT: String(model.contextTokens),
      QUANTIZATION: model.quantization,
      LICENSE: model.license,
      TOOLS: model.tools ? 'yes' : '-',
      REASONING: model.reasoning ? 'yes' : '-',
      DOWNLOADED: pulled.has(model.id) ? 'yes' : '-',
      'GOOD FOR': model.summary,
    })),
  );
  note(
    '\nMEMORY is for the default slots and context on this machine. On a CPU, Q8_0 and Q4_0 files process prompts fastest.',
  );
}

async function remove(name: string): Promise<void> {
  const store = await openStore();
  const added = await removeAdded(name, store);
  if (added === null) {
    await removeDownloaded(store, name);
  } else if (added.usedBy !== null) {
    note(`Its file is kept, because ${added.usedBy} uses it.`);
  } else if (added.source !== null) {
    await removeFiles(store, added.source);
  }
}

/** Deletes the files of a downloaded model. Throws `conflict` if only the configuration defines the model. */
async function removeDownloaded(store: ModelStore, name: string): Promise<void> {
  try {
    for (const file of await store.remove(name)) note(`Removed ${file}`);
  } catch (error) {
    if (!(error instanceof PullError) || error.fault !== 'unknown_model') throw error;
    const { file } = await loadConfig(process.env, 'none');
    const id = modelNamed(
      name,
      file.models.map((model) => model.id),
    );
    if (id === null) throw error;
    const message = `The configuration defines the model ${id}. To stop serving it, remove it from \`models\` in the configuration file.`;
    throw new ServiceError('conflict', message, { cause: error });
  }
}

/** Time that a running service has to cancel the download of a removed model, in milliseconds. */
const CANCEL_MS = 10_000;

/** Deletes the files of an added model. Files outside the models folder stay. */
async function removeFiles(store: ModelStore, source: string): Promise<void> {
  const end = performance.now() + CANCEL_MS;
  for (;;) {
    try {
      for (const file of await store.remove(source)) note(`Removed ${file}`);
      return;
    } catch (error) {
      if (!(error instanceof PullError)) throw error;
      if (error.fault === 'not_downloaded') return note(error.message);
      // Still busy: another process, such as `models pull`, is also downloading the file.
      if (performance.now() >= end) throw error;
      await setTimeout(100);
    }
  }
}

async function verify(name: string | undefined, flags: { json?: true }): Promise<void> {
  await interruptible(async (signal) => {
    const store = await openStore();
    using bar = openBar();
    const results = await store.verify(name ?? null, { signal, onProgress: bar.update });
    bar[Symbol.dispose]();
    if (flags.json) printJson(results.map(({ file, fault }) => ({ file, ok: fault === null, fault })));
    else
      for (const { file, fault } of results)
        print(`${fault === null ? 'ok' : 'BAD'}  ${file}${fault === null ? '' : `: ${fault}`}`);
    if (!flags.json && results.length === 0) note('No models to verify.');
    if (results.some(({ fault }) => fault !== null)) process.exitCode = 1;
  });
}

function asJson(model: LocalModel): Record<string, unknown> {
  return {
    id: model.id,
    file: model.file,
    files: model.files,
    size_bytes: model.sizeBytes,
    sha256: model.sha256,
    source: model.source,
    pulled_at: model.pulledAt,
  };
}

/** Returns the memory that a model needs on this machine with the default slots and context, in GB (10^9 bytes). */
function memoryGb(model: CatalogModel): number {
  return catalogMemory(model, availableMemory().bytes) / 1e9;
}

function catalogJson(model: CatalogModel): Record<string, unknown> {
  return {
    id: model.id,
    summary: model.summary,
    source: describeSource(model.sources[0]),
    license: model.license,
    context_tokens: model.contextTokens,
    quantization: model.quantization,
    size_gb: model.sizeGb,
    memory_gb: Number(memoryGb(model).toFixed(2)),
    recommended_sampling: model.sampling,
    tools: model.tools,
    reasoning: model.reasoning,
  };
}
