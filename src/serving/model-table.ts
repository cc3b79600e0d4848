import { sql } from 'kysely';
import { appendAudit, recordAudit, type Actor, type AuditNote } from '../accounts/audit.ts';
import { type ModelConfig } from '../config/schema.ts';
import { modelSchema } from '../config/model.ts';
import type { Database } from '../database/database.ts';
import { DEFAULT_MODEL, MODELS_REVISION } from '../database/schema.ts';
import type { Log } from '../log.ts';

/** A model in the database. */
export interface StoredModel {
  config: ModelConfig;
  /** The instance that runs its engine; empty: every instance serves it. */
  node: string;
  /** Whether its engine should run. */
  loaded: boolean;
}

/** The models that this instance serves and the number of their last change. */
interface StoredModels {
  revision: number;
  models: readonly StoredModel[];
  /** The ID of the default model; null: not chosen. This instance might not serve that model. */
  defaultModel: string | null;
}

/** The models that were added to a running service. All methods reject with a `DatabaseError`. */
export class ModelTable {
  readonly #database: Database;
  readonly #node: string;
  readonly #log: Log;

  /** `node` identifies this instance and its data directory. */
  constructor(database: Database, node: string, log: Log) {
    this.#database = database;
    this.#node = node;
    this.#log = log;
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
      .where('node', 'in', ['', this.#node])
      .orderBy('created_at')
      .orderBy('id')
      .execute();
    const models = rows.flatMap(({ id, node, definition, loaded }) => {
      const parsed = modelSchema.safeParse(JSON.parse(definition));
      if (parsed.success) return [{ config: parsed.data, node, loaded: loaded === 1 }];
      this.#log.error('the definition of a model in the database is not valid', { model: id });
      return [];
    });
    // A model on an engine of this instance wins over replicas that another instance added under the same ID.
    const own = new Set(models.filter(({ node }) => node !== '').map(({ config }) => config.id));
    return {
      revision,
      models: models.filter(({ config, node }) => node !== '' || !own.has(config.id)),
      defaultModel: chosen?.value ?? null,
    };
  }

  async insert({ config, node, loaded }: StoredModel, by: Actor, note: AuditNote): Promise<void> {
    await this.#change(by, note, async (database) => {
      const row = { id: config.id, node, definition: JSON.stringify(config), loaded: Number(loaded) };
      await database
        .insertInto('models')
        .values({ ...row, created_at: Date.now() })
        .execute();
    });
  }

  async update({ config, node, loaded }: StoredModel, by: Actor, note: AuditNote): Promise<void> {
    await this.#change(by, note, async (database) => {
      await database
        .updateTable('models')
        .set({ definition: JSON.stringify(config), loaded: Number(loaded) })
        .where('id', '=', config.id)
        .where('node', '=', node)
        .execute();
    });
  }

  async delete({ config, node }: StoredModel, by: Actor, note: AuditNote): Promise<void> {
    await this.#change(by, note, async (database) => {
      await database.deleteFrom('models').where('id', '=', config.id).where('node', '=', node).execute();
      await database
        .deleteFrom('settings')
        .where('name', '=', DEFAULT_MODEL)
        .where('value', '=', config.id)
        .execute();
    });
  }

  /** Makes a model the default, for all instances. */
  async setDefault(id: string, by: Actor, note: AuditNote): Promise<void> {
    await this.#change(by, note, async (database) => {
      await database
        .insertInto('settings')
        .values({ name: DEFAULT_MODEL, value: id })
        .onConflict((conflict) => conflict.column('name').doUpdateSet({ value: id }))
        .execute();
    });
  }

  /** Records a change in the audit log only. */
  async note(by: Actor, note: AuditNote): Promise<void> {
    await recordAudit(this.#database, by, note);
  }

  async #change(
    by: Actor,
    note: AuditNote,
    work: (database: Database['kysely']) => Promise<void>,
  ): Promise<void> {
    await this.#database.kysely.transaction().execute(async (transaction) => {
      await work(transaction);
      await transaction
        .updateTable('settings')
        .set({ value: sql<string>`cast(cast(value as integer) + 1 as text)` })
        .where('name', '=', MODELS_REVISION)
        .execute();
      await appendAudit(transaction, by, note);
    });
  }
}
