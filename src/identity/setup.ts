import { randomBytes } from 'node:crypto';
import { appendAudit } from '../accounts/audit.ts';
import { checkedName } from '../accounts/bounds.ts';
import { hasOperator, checkedEmail, putMember } from '../accounts/users.ts';
import type { Database } from '../database/database.ts';
import { DEFAULT_ACCOUNT_ID, SETUP_TOKEN } from '../database/schema.ts';
import { ServiceError } from '../core/errors.ts';
import { PROGRAM } from '../support/program-name.ts';
import type { Identity } from './identity.ts';
import { SETUP_MS, hashToken, newToken } from './token.ts';
import { confirmAddress } from './confirm-address.ts';
import { PASSWORD, setPassword } from './password.ts';
import type { BrowserRequest } from './browser-request.ts';

/**
 * Creates the setup link for the first operator, and invalidates the previous link. The token is in the fragment,
 * which browsers do not send. Null: an operator exists already.
 */
export async function createSetupLink(database: Database, publicUrl: string): Promise<string | null> {
  if (await hasOperator(database)) return null;
  const token = newToken();
  const value = `${Date.now() + SETUP_MS} ${hashToken(token)}`;
  await database.kysely
    .insertInto('settings')
    .values({ name: SETUP_TOKEN, value })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
    .execute();
  return `${publicUrl}/setup#${token}`;
}

/**
 * Creates the first operator, as an owner of the default account. Signs them in and returns the cookies to set.
 * Rejects with a `ServiceError` `invalid_link`, `invalid_value` (param `name` or `email`), or `too_many_attempts`.
 */
export async function setUp(
  identity: Identity,
  request: BrowserRequest,
  values: { token: string; name: string; email: string; password: string },
): Promise<string[]> {
  const { database } = identity;
  await identity.attempts.count('setUp', request);
  const setting = await checkedToken(database, values.token);
  const name = checkedName(values.name, 'user');
  const email = checkedEmail(values.email);
  const passwordHash = await identity.passwords.hash(values.password);
  const userId = await database.kysely.transaction().execute(async (transaction) => {
    // Only one of several concurrent requests can delete the token.
    const { numDeletedRows } = await transaction
      .deleteFrom('settings')
      .where('name', '=', SETUP_TOKEN)
      .where('value', '=', setting)
      .executeTakeFirst();
    if (numDeletedRows === 0n || (await hasOperator({ kysely: transaction }))) throw invalidSetup();
    const now = Date.now();
    const { id } = await transaction
      .insertInto('users')
      .values({
        id: `user_${randomBytes(12).toString('hex')}`,
        name,
        email,
        email_verified: 1,
        operator: 1,
        created_at: now,
        updated_at: now,
      })
      // An `admin` key or an invitation may have created the user before.
      .onConflict((conflict) => conflict.column('email').doUpdateSet({ operator: 1, updated_at: now }))
      .returning('id')
      .executeTakeFirstOrThrow();
    const by = { id: `user:${id}`, ip: request.ip };
    await confirmAddress(transaction, id, PASSWORD, by);
    await setPassword(transaction, id, passwordHash);
    const detail = { by_link: true };
    await appendAudit(transaction, by, { action: 'user.make_operator', subject: by.id, detail });
    await putMember(transaction, { accountId: DEFAULT_ACCOUNT_ID, userId: id, role: 'owner' }, by);
    return id;
  });
  return await identity.startSession(request, userId);
}

/** Checks the token of a setup link without using it. Rejects like `setUp`. */
export async function checkSetupLink(
  { database, attempts }: Identity,
  request: BrowserRequest,
  token: string,
): Promise<void> {
  await attempts.count('link', request);
  await checkedToken(database, token);
  if (await hasOperator(database)) throw invalidSetup();
}

/** Returns the stored setting of a valid token. Rejects with `invalid_link`. */
async function checkedToken(database: Database, token: string): Promise<string> {
  const row = await database.kysely
    .selectFrom('settings')
    .select('value')
    .where('name', '=', SETUP_TOKEN)
    .executeTakeFirst();
  const [until, hash] = row?.value.split(' ') ?? [];
  if (row === undefined || Number(until) <= Date.now() || hash !== hashToken(token)) throw invalidSetup();
  return row.value;
}

function invalidSetup(): ServiceError {
  return new ServiceError(
    'invalid_link',
    `This setup link is invalid, expired or already used. Run \`${PROGRAM} setup-link\` on the server to get a new one.`,
    { param: 'token' },
  );
}
