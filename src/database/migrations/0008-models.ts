import { sql, type Transaction } from 'kysely';
import { MODELS_REVISION, type Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Creates the table of models that were added to a running service. */
export async function createModels(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { text, integer, small, strict } = columnTypes(kind);
  await sql`
    create table models (
      id ${text} not null check (length(id) between 1 and 200),
      node ${text} not null,
      definition ${text} not null,
      loaded ${small} not null check (loaded in (0, 1)),
      created_at ${integer} not null,
      primary key (id, node)
    ) ${strict}`.execute(database);
  await sql`insert into settings (name, value) values (${MODELS_REVISION}, '0')`.execute(database);
}
