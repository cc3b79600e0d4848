import { readFile, rename, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, isAbsolute, join } from 'node:path';
import { unescape } from 'node:querystring';
import { sql } from 'kysely';
import { appendAudit, recordAudit, type Actor, type AuditNote } from '../accounts/audit.ts';
import type { ModelConfig } from '../config/schema.ts';
import { modelSchema } from '../config/model.ts';
import type { Database } from '../database/database.ts';
import { DEFAULT_MODEL, MODELS_REVISION } from '../database/schema.ts';
import { ServiceError } from '../core/errors.ts';
import { otherModel } from '../engine/other-engines.ts';
import { CATALOG, findModel } from '../models/catalog.ts';
import { ModelFileError, PullError } from '../models/errors.ts';
import { parseSource, SourceError } from '../models/source.ts';
import type { ModelStore } from '../models/store.ts';
import { modelNamed } from '../support/nearest.ts';
import { sourceOf } from './model-details.ts';

/** A model in the database. */
export interface StoredModel {
  config: ModelConfig;
  /** The instance that runs its engine; empty: every instance serves it. */
  node: string;
  /** Whether its engine should run. */
  loaded: boolean;
  /** Why it cannot be used, such as an invalid definition in the database; absent: it can. */
  fault?: string;
}

/** A model whose engine runs only on another instance, which may no longer exist. */
export interface ForeignModel {
  id: string;
  /** The host name and the data directory of that instance when it was new. */
  node: string;
}

/** The models that this instance serves and the number of their last change. */
interface StoredModels {
  revision: number;
  models: readonly StoredModel[];
  foreign: readonly ForeignModel[];
  /** The ID of the default model; null: not chosen. This instance might not serve that model. */
  defaultModel: string | null;
}

/** The models that were added to a running service. All methods reject with a `DatabaseError`. */
export class ModelTable {
  readonly #database: Database;
  readonly #node: string;

  /** `node` identifies this instance and its data directory. */
  constructor(database: Database, node: string) {
    this.#database = database;
    this.#node = node;
  }

  /** Returns a number that increases with every change, by any instance. */
  async revision(): Promise<number> {
    const { value } = await this.#database.kysely
      .selectFrom('settings')
      .select('value')
      .where('name', '=', MODELS_REVISION)
      .executeTakeFirstOrThrow();
    return Number(value);
  }

  /** Returns the models for this instance, in the order in which they were added. */
  async read(): Promise<StoredModels> {
    // Read before the models, so that a change in between is noticed by the next comparison.
    const revision = await this.revision();
    const chosen = await this.#database.kysely
      .selectFrom('settings')
      .select('value')
      .where('name', '=', DEFAULT_MODEL)
      .executeTakeFirst();
    const rows = await this.#database.kysely
      .selectFrom('models')
      .select(['id', 'node', 'definition', 'loaded'])
      .orderBy('created_at')
      .orderBy('id')
      .execute();
    const [own = [], foreign = []] = [true, false].map((isOwn) =>
      rows.filter(({ node }) => (node === '' || node === this.#node) === isOwn),
    );
    const models = own.map(({ id, node, definition, loaded }): StoredModel => {
      const read = readDefinition(id, definition);
      return typeof read === 'string'
        ? { config: { ...NOTHING, id }, node, loaded: false, fault: read }
        : { config: read, node, loaded: loaded === 1 };
    });
    // A model on an engine of this instance wins over replicas that another instance added under the same ID.
    const embedded = new Set(models.filter(({ node }) => node !== '').map(({ config }) => config.id));
    return {
      revision,
      models: models.filter(({ config, node }) => node !== '' || !embedded.has(config.id)),
      foreign: foreign.map(({ id, node }) => ({ id, node })),
      defaultModel: chosen?.value ?? null,
    };
  }

  async insert({ config, node, loaded }: StoredModel, by: Actor): Promise<void> {
    const { id, replicas, pricing } = config;
    const origin = replicas ? { replicas: replicas.map(({ url }) => url) } : { source: sourceOf(config) };
    await this.#change(by, note('model.add', id, { ...origin, ...pricing }), async (database) => {
      const same = await database.selectFrom('models').select('id').where('id', '=', id).executeTakeFirst();
      // Replicas of a removed model with this ID may have been drained.
      if (!same) await database.deleteFrom('drained_replicas').where('model', '=', id).execute();
      const row = { id, node, definition: JSON.stringify(config), loaded: Number(loaded) };
      await database
        .insertInto('models')
        .values({ ...row, created_at: Date.now() })
        .execute();
    });
  }

  /**
   * Changes a model. `action` and `detail` are recorded in the audit log. The replica with the URL `added`, which may
   * have been drained and removed before, is not drained.
   */
  async update(
    { config, node, loaded }: StoredModel,
    by: Actor,
    action: ModelAction,
    detail: AuditNote['detail'],
    added: string | null = null,
  ): Promise<void> {
    await this.#change(by, note(action, config.id, detail), async (database) => {
      await database
        .deleteFrom('drained_replicas')
        .where('model', '=', config.id)
        .where('server', '=', added)
        .execute();
      await database
        .updateTable('models')
        .set({ definition: JSON.stringify(config), loaded: Number(loaded) })
        .where('id', '=', config.id)
        .where('node', '=', node)
        .execute();
    });
  }

  async setLoaded(stored: StoredModel, loaded: boolean, by: Actor): Promise<void> {
    await this.update({ ...stored, loaded }, by, loaded ? 'model.load' : 'model.unload', {});
  }

  /** Deletes a model. `detail` is recorded in the audit log. */
  async delete({ id, node }: ForeignModel, by: Actor, detail: AuditNote['detail']): Promise<void> {
    await this.#change(by, note('model.remove', id, detail), async (database) => {
      await database.deleteFrom('models').where('id', '=', id).where('node', '=', node).execute();
      await database
        .deleteFrom('settings')
        .where('name', '=', DEFAULT_MODEL)
        .where('value', '=', id)
        .execute();
    });
  }

  /** Makes a model the default, for all instances. */
  async setDefault(id: string, by: Actor): Promise<void> {
    await this.#change(by, note('model.set_default', id), async (database) => {
      await database
        .insertInto('settings')
        .values({ name: DEFAULT_MODEL, value: id })
        .onConflict((conflict) => conflict.column('name').doUpdateSet({ value: id }))
        .execute();
    });
  }

  /** Records in the audit log that a model of the configuration was loaded or unloaded. */
  async recordLoaded(id: string, loaded: boolean, by: Actor): Promise<void> {
    await recordAudit(this.#database, by, note(loaded ? 'model.load' : 'model.unload', id));
  }

  async #change(
    by: Actor,
    entry: AuditNote,
    work: (database: Database['kysely']) => Promise<void>,
  ): Promise<void> {
    await this.#database.kysely.transaction().execute(async (transaction) => {
      await work(transaction);
      await transaction
        .updateTable('settings')
        .set({ value: sql<string>`cast(cast(value as integer) + 1 as text)` })
        .where('name', '=', MODELS_REVISION)
        .execute();
      await appendAudit(transaction, by, entry);
    });
  }
}

type ModelAction = Extract<AuditNote['action'], `${'model' | 'replica'}.${string}`>;

function note(action: ModelAction, id: string, detail: AuditNote['detail'] = {}): AuditNote {
  return { action, subject: `model:${id}`, detail };
}

/** The definition of a model whose definition cannot be used. */
const NOTHING = {
  required: false,
  keep: false,
  samplingDefaults: 'recommended',
  pricing: { prompt: '0', completion: '0' },
  replicas: [],
} satisfies Omit<ModelConfig, 'id'>;

/** Returns the definition of a model, or why it is not valid. */
function readDefinition(id: string, definition: string): ModelConfig | string {
  let value: unknown;
  try {
    value = JSON.parse(definition);
  } catch {
    // The message of the parser quotes the text.
    return 'its definition in the database is not JSON';
  }
  const { data, error } = modelSchema.safeParse(value);
  if (data === undefined) {
    const [issue] = error.issues;
    const field = issue === undefined || issue.path.length === 0 ? '' : `\`${pathOf(issue.path)}\` of `;
    return `${field}its definition in the database is not valid: ${issue?.message ?? ''}`;
  }
  if (data.command) return '`command` is only for models in the configuration file';
  return data.id === id ? data : `its definition in the database has another ID, ${JSON.stringify(data.id)}`;
}

/** A model to add: either `source` or `replicas` is required. */
export interface NewModel {
  /** Default: derived from the source. Required with `replicas`. */
  id?: string | undefined;
  /** The ID of a model in the catalog, or its name without the namespace; `hf:…`, an address, or an absolute path. */
  source?: string | undefined;
  replicas?: readonly NewReplica[] | undefined;
  /** Only with `replicas`. */
  modality?: string | undefined;
  pricing?: PricingChange | undefined;
  contextTokens?: number | undefined;
  slots?: number | undefined;
  /** Only with `source`. */
  keep?: boolean | undefined;
}

/** Prices as in the configuration. Absent prices are not changed. */
export interface PricingChange {
  prompt?: string | undefined;
  completion?: string | undefined;
  /** Null: the price of other prompt tokens. */
  input_cache_read?: string | null | undefined;
}

/** As in the configuration. */
export interface NewReplica {
  url: string;
  dialect: string;
  apiKeyEnv?: string | undefined;
  model?: string | undefined;
  maxInFlight?: number | undefined;
}

interface NodeConfig {
  home: string;
  databaseUrl: unknown;
}

/**
 * Identifies this instance, for added models whose engine runs only here. Empty with SQLite. It is the name that
 * `keepNode` gave to the data directory.
 */
export async function nodeOf({ home, databaseUrl }: NodeConfig): Promise<string> {
  if (databaseUrl === null) return '';
  return (await storedNode(home)) ?? `${hostname()}:${home}`;
}

/**
 * Like `nodeOf`, and gives the data directory its name if it has none. The host can get another name later, as with each
 * rollout on Kubernetes, and the models stay where their files are.
 */
export async function keepNode(config: NodeConfig): Promise<string> {
  const node = await nodeOf(config);
  if (node === '' || (await storedNode(config.home)) !== null) return node;
  const file = join(config.home, NODE_FILE);
  // Another process never reads a part of it.
  await writeFile(`${file}.${process.pid}`, node);
  await rename(`${file}.${process.pid}`, file);
  return node;
}

/** In the data directory. */
const NODE_FILE = 'node';

async function storedNode(home: string): Promise<string | null> {
  try {
    return await readFile(join(home, NODE_FILE), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
}

/** Returns the definition of a new model. Rejects with `invalid_value` or `missing_required_parameter`. */
export async function defineModel(model: NewModel, store: ModelStore): Promise<ModelConfig> {
  const { source, replicas, modality, contextTokens, slots, keep } = model;
  const pricing = changedPricing({}, model.pricing);
  if (replicas !== undefined) {
    if (source !== undefined) throw invalid('replicas', '`replicas` cannot be combined with `source`.');
    if (slots !== undefined) throw invalid('slots', '`slots` is only for models with a `source`.');
    const id = withNamespace(model.id);
    if (id === undefined) throw missing('id', '`id` is required.');
    return validModel({ id, replicas, modality, pricing, contextTokens, keep });
  }
  if (source === undefined) throw missing('source', '`source` or `replicas` is required.');
  if (modality !== undefined) throw invalid('modality', '`modality` is only for models with `replicas`.');
  const listed = catalogName(source);
  const name = listed ?? source;
  if (listed === null) await checkSource(source, store);
  const id = withNamespace(model.id) ?? listed ?? idOf(source);
  return validModel({
    id,
    keep,
    pricing,
    engine: { ...(id === listed ? {} : { file: name }), contextTokens, slots },
  });
}

/** Returns changed prices for a definition, of which undefined ones are absent. */
export function changedPricing(before: PricingChange, change: PricingChange = {}): PricingChange {
  const { prompt = before.prompt, completion = before.completion } = change;
  const { input_cache_read: cached = before.input_cache_read } = change;
  return { prompt, completion, input_cache_read: cached ?? undefined };
}

/** Returns the catalog ID with this name; null: there is none. */
export function catalogName(name: string): string | null {
  return modelNamed(
    name,
    CATALOG.map(({ id }) => id),
  );
}

/** Validates a definition like an element of `models` in the configuration. Throws `invalid_value`. */
export function validModel(definition: Readonly<Record<string, unknown>>): ModelConfig {
  // Undefined fields count as absent.
  const { data, error } = modelSchema.safeParse(JSON.parse(JSON.stringify(definition)));
  if (data) return data;
  const [issue] = error.issues;
  const param = pathOf(issue?.path ?? []);
  throw invalid(param, `Invalid value for \`${param}\`: ${issue?.message ?? ''}.`);
}

/** Returns the error of a field of a definition. */
export function invalid(param: string, message: string): ServiceError {
  return new ServiceError('invalid_value', message, { param });
}

function missing(param: string, message: string): ServiceError {
  return new ServiceError('missing_required_parameter', message, { param });
}

/** Returns an ID as callers send it. The models of this service have the namespace `local` unless they name another. */
function withNamespace(id: string | undefined): string | undefined {
  return id === undefined || id.includes('/') ? id : `local/${id}`;
}

function pathOf(path: readonly PropertyKey[]): string {
  return path
    .map(String)
    .join('.')
    .replaceAll(/\.(\d+)/g, '[$1]');
}

/** Returns the default ID of the model of a valid source. */
function idOf(source: string): string {
  const parsed = parseSource(source);
  switch (parsed.kind) {
    case 'hub':
      return `${parsed.repository.split('/', 1)[0] ?? ''}/${stem(parsed.file)}`;
    case 'url':
      // Decodes what is valid, unlike `decodeURIComponent`, which throws.
      return `local/${stem(unescape(parsed.url.pathname))}`;
    default:
      return `local/${stem(source)}`;
  }
}

/** Rejects with `invalid_value` if a model cannot be loaded from this source. Does not use the network. */
async function checkSource(source: string, store: ModelStore): Promise<void> {
  if (otherModel({ file: source }) !== null) return;
  try {
    // Also checks that a local file exists and is a model.
    await store.resolve(source);
    if (findModel(source)) return;
    const parsed = parseSource(source);
    if (parsed.kind === 'path' && !isAbsolute(source)) throw new SourceError(source, 'an absolute path');
    // A signed query is a secret, and the source is stored in the database and shown to operators.
    if (parsed.kind === 'url' && parsed.url.search !== '') {
      throw new SourceError(parsed.url.origin + parsed.url.pathname, 'an address without a query');
    }
  } catch (error) {
    if (!(error instanceof PullError || error instanceof SourceError || error instanceof ModelFileError))
      throw error;
    throw invalid('source', error.message);
  }
}

/**
 * Returns the name of a file. Removes the extension and the part number, and replaces characters that no ID contains.
 */
function stem(path: string): string {
  const name = basename(path)
    .replace(/\.gguf$/i, '')
    .replace(/-\d{5}-of-\d{5}$/, '');
  return name.replaceAll(/[^A-Za-z0-9._-]+/g, '-').replace(/^[^A-Za-z0-9]+/, '') || 'model';
}
