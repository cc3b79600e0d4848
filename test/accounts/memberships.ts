import { sql } from 'kysely';
import type { Database } from '../../src/database/database.ts';

/** Creates accounts and makes a user a member of each. */
export async function addToAccounts({ kysely }: Database, userId: string, count: number): Promise<void> {
  const numbers = sql`
    with recursive numbers (number) as (
      select 1 union all select number + 1 from numbers where number < ${sql.lit(count)}
    )`;
  await sql`
    insert into accounts (id, name, status, created_at)
    ${numbers} select 'acct_many_' || number, 'Many', 'active', 1 from numbers`.execute(kysely);
  await sql`
    insert into memberships (account_id, user_id, role, created_at)
    ${numbers} select 'acct_many_' || number, ${sql.lit(userId)}, 'member', 1 from numbers`.execute(kysely);
}
