import type { Database } from '../../database/database.ts';

/** How many copies of the service live, this one among them. Rejects with a `DatabaseError`. */
export async function countCopies(database: Database): Promise<number> {
  const { count } = await database.kysely
    .selectFrom('instances')
    .select((select) => select.fn.countAll<number>().as('count'))
    .where('live', '=', 1)
    .executeTakeFirstOrThrow();
  return count;
}
