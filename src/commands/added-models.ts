import { modalityOf, outputOf, type ModelOutput } from '../core/features.ts';
import { totalmem } from 'node:os';
import { resolve } from 'node:path';
import { databaseOf, loadConfig } from '../config/load.ts';
import type { Config, ModelConfig } from '../config/schema.ts';
import { openDatabase, sqlitePath, type Database } from '../database/database.ts';
import { runningService } from '../database/service-lock.ts';
import { availableMemory } from '../models/memory.ts';
import { ServiceError } from '../core/errors.ts';
import { modelNamed } from '../support/nearest.ts';
import { findModel } from '../models/catalog.ts';
import { fileSize } from '../models/disk.ts';
import type { LocalModel, ModelStore } from '../models/store.ts';
import { PROGRAM } from '../support/program-name.ts';
import { defineModel, keepNode, nodeOf, ModelTable, type StoredModel } from '../serving/model-table.ts';
import { checkFit, footprintOf, plannedOf } from '../serving/memory-fit.ts';
import { sourceOf } from '../serving/model-details.ts';
import { commandLineActor, openConfiguredDatabase } from './open.ts';
import { note, print, printJson, printTable } from './output.ts';

/** Options of `sluice models add`. */
export interface AddFlags {
  id?: string;
  promptPrice?: string;
  cachedPrice?: string;
  completionPrice?: string;
  contextTokens?: number;
  slots?: number;
  keep?: true;
}

type Pull = (name: string) => Promise<unknown>;

/** Adds a model to the database after `pull` has downloaded its file. A running service starts to load it within a second or two. */
export async function addModel(
  source: string,
  flags: AddFlags,
  store: ModelStore,
  pull: Pull,
): Promise<void> {
  const config = await loadConfig(process.env, 'none');
  const model = await definitionOf(source, flags, store);
  if (config.file.models.some((configured) => configured.id === model.id)) {
    throw new ServiceError('conflict', `The model ${model.id} is already in the configuration.`);
  }
  await using database = await openConfiguredDatabase();
  const table = await tableOf(database, config);
  if (await find(table, model.id)) {
    throw new ServiceError('conflict', `The model ${model.id} was already added.`);
  }
  await insert(model, table, config, store, pull);
  note(`Added the model. A running service loads it now; otherwise, \`${PROGRAM} serve\` does. Its ID:`);
  print(model.id);
}

/** A model of the service, and what it returns. */
export interface AddedModel {
  id: string;
  output: ModelOutput;
}

/**
 * Adds a model like `addModel`, unless it was added or is in the configuration; and loads it if it was unloaded. `source`
 * may also be the name of an added model. With `isDefault`, makes it the default, unless it generates no text: chats need
 * one that generates text.
 */
export async function ensureModel(
  source: string,
  config: Config,
  store: ModelStore,
  pull: Pull,
  isDefault: boolean,
): Promise<AddedModel> {
  await using database = await openConfiguredDatabase();
  const table = await tableOf(database, config);
  const added = await find(table, source);
  const model = added?.config ?? (await definitionOf(source, {}, store));
  const { id } = model;
  const stored = added ?? (await find(table, id));
  if (stored?.loaded === false) {
    await table.setLoaded(stored, true, commandLineActor());
  } else if (!stored && !config.file.models.some((configured) => configured.id === id)) {
    await insert(model, table, config, store, pull);
  }
  const planned = model.engine ? await plannedOf(id, model.engine, store) : null;
  const output = outputOf(modalityOf(planned?.embedding ?? null));
  if (isDefault && output === 'text') await table.setDefault(id, commandLineActor());
  return { id, output };
}

async function definitionOf(source: string, flags: AddFlags, store: ModelStore): Promise<ModelConfig> {
  const {
    id,
    promptPrice: prompt,
    completionPrice: completion,
    cachedPrice,
    contextTokens,
    slots,
    keep,
  } = flags;
  const pricing = { prompt, completion, input_cache_read: cachedPrice };
  // The working directory of the service can differ from that of this command.
  const isPath = source.endsWith('.gguf') && !/^[a-z][a-z0-9+.-]+:/i.test(source) && !findModel(source);
  return await defineModel(
    { id, source: isPath ? resolve(source) : source, pricing, contextTokens, slots, keep },
    store,
  );
}

async function insert(
  model: ModelConfig,
  table: ModelTable,
  config: Config,
  store: ModelStore,
  pull: Pull,
): Promise<void> {
  const footprint = model.engine ? await footprintOf(model.id, model.engine, store) : null;
  if (footprint?.inMachineMemory === true) checkFit(model.id, footprint, possibleBytes(config), []);
  await pull(sourceOf(model));
  await table.insert({ config: model, node: await keepNode(config), loaded: true }, commandLineActor());
}

/** Returns the memory that a model could get, in bytes. A running service can unload all of its other models. */
function possibleBytes({ home }: Config): number {
  if (runningService(home) === null) return availableMemory().bytes;
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(totalmem(), limit) : totalmem();
}

/** Lists the added models that the service on this data directory serves. */
export async function listAdded(json: boolean): Promise<void> {
  await using database = await openConfiguredDatabase();
  const table = await tableOf(database, await loadConfig(process.env, 'none'));
  const { models, foreign } = await table.read();
  const rows = models.map(({ config, loaded, fault = null }) => ({
    id: config.id,
    loaded: config.replicas ? null : loaded,
    keep: config.replicas ? null : config.keep,
    prompt: config.pricing.prompt,
    completion: config.pricing.completion,
    input_cache_read: config.pricing.input_cache_read ?? null,
    source: config.replicas ? config.replicas.map(({ url }) => url).join(', ') : sourceOf(config),
    fault,
  }));
  if (json) return printJson([...rows, ...foreign.map(({ id, node }) => ({ id, instance: node }))]);
  if (rows.length + foreign.length === 0)
    return note(`No models added yet. Add one: ${PROGRAM} models add <model>`);
  const unknown = { PROMPT: '-', CACHED: '-', COMPLETION: '-', SOURCE: '-' };
  printTable([
    ...rows.map(({ id, fault, loaded, prompt, input_cache_read: cached, completion, source }) => ({
      ID: id,
      LOADED: fault !== null ? 'invalid' : loaded === null ? '-' : loaded ? 'yes' : 'no',
      ...(fault === null
        ? { PROMPT: prompt, CACHED: cached ?? prompt, COMPLETION: completion, SOURCE: source }
        : unknown),
    })),
    ...foreign.map(({ id }) => ({ ID: id, LOADED: 'elsewhere', ...unknown })),
  ]);
  for (const { id, fault } of rows)
    if (fault !== null) note(`${id} is not served: ${fault}. Remove it: ${PROGRAM} models remove ${id}`);
  for (const { id, node } of foreign)
    note(
      `${id} is served only by the instance ${node}. If that is gone, remove it: ${PROGRAM} models remove ${id}`,
    );
}

/**
 * Returns the definitions of the added models that the service on this data directory serves. Changes nothing. Rejects
 * with a `DatabaseError` `older_schema` if the database must be migrated first.
 */
export async function readAdded(config: Config): Promise<ModelConfig[]> {
  if (!(await hasDatabase())) return [];
  await using database = await openDatabase({ ...databaseOf(process.env), migrates: false });
  const { models } = await (await tableOf(database, config)).read();
  return models.flatMap(({ config: model, fault }) => (fault === undefined ? model : []));
}

/** Whether there may be added models. There are none if the SQLite database does not exist. */
async function hasDatabase(): Promise<boolean> {
  const { home, url } = databaseOf(process.env);
  return url !== null || (await fileSize(sqlitePath(home))) !== null;
}

/** Returns the model files outside the models folder that the configuration and added models use. */
export async function servedFiles(store: ModelStore): Promise<LocalModel[]> {
  const config = await loadConfig(process.env, 'none');
  const found = [...config.file.models, ...(await readAdded(config))].map(async (model) => {
    const source = model.replicas ? null : sourceOf(model);
    if (source === null || store.managedPath(source) !== null) return [];
    const local = await store.find(source).catch(() => null);
    return local === null ? [] : [{ ...local, id: model.id }];
  });
  return (await Promise.all(found)).flat();
}

/** Loads or unloads an added model in the running service, or at its next start. */
export async function setLoaded(name: string, loaded: boolean): Promise<void> {
  const config = await loadConfig(process.env, 'none');
  await using database = await openConfiguredDatabase();
  const table = await tableOf(database, config);
  const stored = await find(table, name);
  if (!stored || stored.config.replicas) {
    throw new ServiceError(
      'model_not_found',
      `${name} is not an added model with an embedded engine. \`${PROGRAM} models list --added\` lists the added models.`,
    );
  }
  await table.setLoaded(stored, loaded, commandLineActor());
  note(`A running service ${loaded ? 'loads' : 'unloads'} ${stored.config.id} now.`);
}

/**
 * Removes an added model from the database. Resolves to null if there is no such model. `source` is the source of the
 * model's file; null: it has no file. `usedBy` is the ID of another model that uses the file; null: none.
 */
export async function removeAdded(
  name: string,
  store: ModelStore,
): Promise<{ source: string | null; usedBy: string | null } | null> {
  if (!(await hasDatabase())) return null;
  const config = await loadConfig(process.env, 'none');
  await using database = await openConfiguredDatabase();
  const table = await tableOf(database, config);
  const stored = await find(table, name);
  if (!stored) return await removeForeign(name, table);
  const { id } = stored.config;
  await table.delete({ id, node: stored.node }, commandLineActor(), { keepFile: false });
  note(`Removed the model ${id}. A running service stops serving it now.`);
  if (stored.config.replicas) return { source: null, usedBy: null };
  const source = sourceOf(stored.config);
  const path = store.managedPath(source);
  const others = [...config.file.models, ...(await table.read()).models.map((model) => model.config)];
  const user = others.find(
    (other) => path !== null && !other.replicas && store.managedPath(sourceOf(other)) === path,
  );
  return { source, usedBy: user?.id ?? null };
}

/** Removes a model of another instance, which may no longer exist. Its file is not here. Returns as `removeAdded`. */
async function removeForeign(name: string, table: ModelTable): ReturnType<typeof removeAdded> {
  const { foreign } = await table.read();
  const id = modelNamed(
    name,
    foreign.map((model) => model.id),
  );
  const row = foreign.find((model) => model.id === id);
  if (!row) return null;
  await table.delete(row, commandLineActor(), { node: row.node });
  note(`Removed the model ${row.id} of the instance ${row.node}, which stops serving it if it runs.`);
  return { source: null, usedBy: null };
}

async function tableOf(database: Database, config: Parameters<typeof nodeOf>[0]): Promise<ModelTable> {
  return new ModelTable(database, await nodeOf(config));
}

async function find(table: ModelTable, name: string): Promise<StoredModel | undefined> {
  const { models } = await table.read();
  const ids = models.map(({ config }) => config.id);
  const id = modelNamed(name, ids);
  return models.find(({ config }) => config.id === id);
}
