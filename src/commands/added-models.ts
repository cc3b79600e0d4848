import { resolve } from 'node:path';
import type { AuditNote } from '../accounts/audit.ts';
import { loadConfig } from '../config/load.ts';
import type { Database } from '../database/database.ts';
import { ServiceError } from '../errors.ts';
import { SILENT } from '../log.ts';
import { findModel } from '../models/catalog.ts';
import type { ModelStore } from '../models/store.ts';
import { PROGRAM } from '../program-name.ts';
import { defineModel, nodeOf } from '../serving/definition.ts';
import { checkFit } from '../serving/memory-fit.ts';
import { ModelTable, type StoredModel } from '../serving/model-table.ts';
import { commandLineActor, openConfiguredDatabase } from './open.ts';
import { note, print, printJson, printTable } from './output.ts';

/** Options of `sluice models add`. */
export interface AddFlags {
  id?: string;
  promptPrice?: string;
  completionPrice?: string;
  contextTokens?: number;
  slots?: number;
}

/** Adds a model to the database after `pull` has downloaded its file. A running service loads it within a second or two. */
export async function addModel(
  source: string,
  flags: AddFlags,
  store: ModelStore,
  pull: (name: string) => Promise<void>,
): Promise<void> {
  const config = await loadConfig(process.env);
  const { id, promptPrice: prompt, completionPrice: completion, contextTokens, slots } = flags;
  // The service has another working directory.
  const isPath = source.endsWith('.gguf') && !/^[a-z][a-z0-9+.-]+:/i.test(source) && !findModel(source);
  const model = await defineModel(
    { id, source: isPath ? resolve(source) : source, pricing: { prompt, completion }, contextTokens, slots },
    store,
  );
  if (config.file.models.some((configured) => configured.id === model.id)) {
    throw new ServiceError('conflict', `The model ${model.id} is already in the configuration.`);
  }
  await using database = await openConfiguredDatabase();
  const table = tableOf(database, config);
  if (await find(table, model.id)) {
    throw new ServiceError('conflict', `The model ${model.id} was already added.`);
  }
  if (model.engine) await checkFit(model.id, model.engine, store, []);
  await pull(model.engine?.file ?? model.id);
  const detail = { source: model.engine?.file ?? model.id, ...model.pricing };
  const stored = { config: model, node: nodeOf(config), loaded: true };
  await table.insert(stored, commandLineActor(), noteOf('model.add', model.id, detail));
  note(`Added the model. A running service loads it now; otherwise, \`${PROGRAM} serve\` does. Its ID:`);
  print(model.id);
}

/** Lists the models in the database that the service on this data directory serves. */
export async function listAdded(json: boolean): Promise<void> {
  await using database = await openConfiguredDatabase();
  const { models } = await tableOf(database, await loadConfig(process.env)).read();
  const rows = models.map(({ config, loaded }) => ({
    id: config.id,
    loaded: config.replicas ? null : loaded,
    prompt: config.pricing.prompt,
    completion: config.pricing.completion,
    source: config.replicas
      ? config.replicas.map(({ url }) => url).join(', ')
      : (config.engine?.file ?? config.id),
  }));
  if (json) return printJson(rows);
  if (rows.length === 0) return note(`No models added yet. Add one: ${PROGRAM} models add <model>`);
  printTable(
    ['ID', 'LOADED', 'PROMPT', 'COMPLETION', 'SOURCE'],
    rows.map(({ id, loaded, prompt, completion, source }) => [
      id,
      loaded === null ? '-' : loaded ? 'yes' : 'no',
      prompt,
      completion,
      source,
    ]),
  );
}

/** Loads or unloads an added model in the running service, or at its next start. */
export async function setLoaded(id: string, loaded: boolean): Promise<void> {
  const config = await loadConfig(process.env);
  await using database = await openConfiguredDatabase();
  const table = tableOf(database, config);
  const stored = await find(table, id);
  if (!stored || stored.config.replicas) {
    throw new ServiceError(
      'model_not_found',
      `No model ${id} with an engine was added. \`${PROGRAM} models list --added\` lists the models.`,
    );
  }
  const action = loaded ? 'model.load' : 'model.unload';
  await table.update({ ...stored, loaded }, commandLineActor(), noteOf(action, id));
  note(`A running service ${loaded ? 'loads' : 'unloads'} ${id} now.`);
}

/** Removes an added model from the database. Resolves to the source of its file; null if there is no such model. */
export async function removeAdded(id: string): Promise<{ source: string | null } | null> {
  const config = await loadConfig(process.env);
  await using database = await openConfiguredDatabase();
  const table = tableOf(database, config);
  const stored = await find(table, id);
  if (!stored) return null;
  await table.delete(stored, commandLineActor(), noteOf('model.remove', id, { keepFile: false }));
  note(`Removed the model ${id}. A running service stops serving it now.`);
  return { source: stored.config.replicas ? null : (stored.config.engine?.file ?? id) };
}

function tableOf(database: Database, config: Parameters<typeof nodeOf>[0]): ModelTable {
  return new ModelTable(database, nodeOf(config), SILENT);
}

async function find(table: ModelTable, id: string): Promise<StoredModel | undefined> {
  return (await table.read()).models.find(({ config }) => config.id === id);
}

function noteOf(action: AuditNote['action'], id: string, detail: AuditNote['detail'] = {}): AuditNote {
  return { action, subject: `model:${id}`, detail };
}
