import { randomBytes } from 'node:crypto';
import { sql, type Selectable } from 'kysely';
import type { PlanLimits } from '../config/plan.ts';
import type { Database } from '../database/database.ts';
import { DEFAULT_ACCOUNT_ID, type AccountStatus, type Schema, type Transaction } from '../database/schema.ts';
import { ServiceError } from '../core/errors.ts';
import type { AuditAction } from './audit-actions.ts';
import { appendAudit, type Actor } from './audit.ts';
import { checkedName } from './bounds.ts';
import { readLargePage, type Page, type PageQuery } from './page.ts';
import { limitsText, readLimits, type Plan, type Plans } from './plans.ts';

const COLUMNS = ['id', 'name', 'plan', 'limits', 'status', 'created_at'] as const;

export type AccountRow = Pick<Selectable<Schema['accounts']>, (typeof COLUMNS)[number]>;

/** Returns the plan with this name; null for null. Throws a `ServiceError` `not_found` (param `plan`). */
export function findPlan(plans: Plans, name: string | null): Plan | null {
  if (name === null) return null;
  const plan = plans.of(name);
  if (plan !== null) return plan;
  const known = plans.list().map((one) => one.name);
  throw new ServiceError(
    'not_found',
    `The plan \`${name}\` does not exist. Available plans: ${known.join(', ')}.`,
    {
      param: 'plan',
    },
  );
}

interface NewAccount {
  name: string;
  plan?: Plan | null | undefined;
}

/** Creates an account. Rejects with a `ServiceError` `invalid_value` (param `name`), or a `DatabaseError`. */
export async function createAccount(database: Database, values: NewAccount, by: Actor): Promise<AccountRow> {
  return await database.kysely.transaction().execute((transaction) => insertAccount(transaction, values, by));
}

/** Like `createAccount`, in a transaction of the caller. */
export async function insertAccount(
  transaction: Transaction,
  values: NewAccount,
  by: Actor,
): Promise<AccountRow> {
  const name = checkedName(values.name, 'account');
  const plan = values.plan?.name ?? null;
  const id = `acct_${randomBytes(12).toString('hex')}`;
  const row = await transaction
    .insertInto('accounts')
    .values({ id, name, plan, status: 'active', created_at: Date.now() })
    .returning(COLUMNS)
    .executeTakeFirstOrThrow();
  const detail = { name, plan };
  await appendAudit(transaction, by, {
    action: 'account.create',
    subject: `account:${id}`,
    accountId: id,
    detail,
  });
  return row;
}

/** Returns an account. Rejects with a `ServiceError` `not_found`. */
export async function getAccount(database: Database, id: string): Promise<AccountRow> {
  const row = await database.kysely
    .selectFrom('accounts')
    .select(COLUMNS)
    .where('id', '=', id)
    .executeTakeFirst();
  if (row === undefined) throw noSuchAccount();
  return row;
}

/** Returns a page of all accounts, oldest first. Rejects with `invalid_value` (param `limit` or `cursor`). */
export async function listAccounts(database: Database, page: PageQuery = {}): Promise<Page<AccountRow>> {
  const sizes = database.kysely
    .selectFrom('accounts')
    .select(['id', 'created_at'])
    .select(sql<number>`coalesce(octet_length(limits), 0)`.as('bytes'));
  const rows = database.kysely.selectFrom('accounts').select(COLUMNS).orderBy('created_at').orderBy('id');
  return await readLargePage(sizes, page, (ids) => rows.where('id', 'in', ids).execute());
}

/** A plan and the number of its accounts. */
export interface ListedPlan {
  name: string;
  isDefault: boolean;
  /** Excludes closed accounts. */
  accounts: number;
  /** Null: the plan is missing from the configuration, so requests of its accounts are refused. */
  limits: PlanLimits | null;
  /** Null if `limits` is null. */
  weight: number | null;
}

/** Returns the configured plans in order, then missing plans that accounts still have. */
export async function listPlans(database: Database, plans: Plans): Promise<ListedPlan[]> {
  const rows = await database.kysely
    .selectFrom('accounts')
    .select(['plan', (select) => select.fn.countAll<number>().as('count')])
    .where('status', '<>', 'closed')
    .groupBy('plan')
    .orderBy('plan')
    .execute();
  const counts = new Map(rows.map(({ plan, count }) => [plan, count]));
  const known: ListedPlan[] = plans.list().map(({ name, limits, weight }) => {
    const isDefault = name === plans.defaultName;
    const accounts = (counts.get(name) ?? 0) + (isDefault ? (counts.get(null) ?? 0) : 0);
    return { name, isDefault, accounts, limits, weight };
  });
  const missing: ListedPlan[] = [...counts].flatMap(([name, accounts]) =>
    name === null || plans.of(name) !== null
      ? []
      : [{ name, isDefault: false, accounts, limits: null, weight: null }],
  );
  return [...known, ...missing];
}

/** Changes to an account. Omitted fields stay the same. */
export interface AccountChange {
  name?: string | undefined;
  /** Null: the default plan. */
  plan?: Plan | null | undefined;
  /**
   * Returns its own limits over those of the plan from the ones that it has; null or empty: none. They have been validated
   * with a schema.
   */
  limits?: ((now: PlanLimits | null) => PlanLimits | null) | undefined;
  /** `closed` is permanent: the account's keys stop working, its ledger stays. */
  status?: AccountStatus | undefined;
}

/**
 * Changes an account, and records each changed field in the audit log. All instances apply the change to the account's
 * keys within a second. Rejects with a `ServiceError` `not_found`, `invalid_value` (param `name`), or `conflict`:
 * param `status` for closing the default account, or `id` if the account is closed.
 */
export async function changeAccount(
  database: Database,
  id: string,
  change: AccountChange,
  by: Actor,
): Promise<AccountRow> {
  const values = {
    ...(change.name !== undefined && { name: checkedName(change.name, 'account') }),
    ...(change.plan !== undefined && { plan: change.plan?.name ?? null }),
    ...(change.status !== undefined && { status: checkedStatus(id, change.status) }),
  };
  return await database.kysely.transaction().execute(async (transaction) => {
    const row = await lockAccount(transaction, id);
    const limits = change.limits?.(readLimits(row.limits) ?? null);
    const columns = { ...values, ...(limits !== undefined && { limits: limitsText(limits) }) };
    const changed = { ...row, ...columns };
    const changedFields = (['name', 'plan', 'limits', 'status'] as const).filter(
      (field) => row[field] !== changed[field],
    );
    if (changedFields.length === 0) return row;
    if (row.status === 'closed') {
      throw new ServiceError('conflict', 'A closed account cannot be changed.', { param: 'id' });
    }
    await transaction.updateTable('accounts').set(columns).where('id', '=', id).execute();
    for (const field of changedFields) {
      await appendAudit(transaction, by, {
        action: field === 'status' ? STATUS_ACTIONS[changed.status] : FIELD_ACTIONS[field],
        subject: `account:${id}`,
        accountId: id,
        detail: { from: readable(field, row), to: readable(field, changed) },
      });
    }
    return changed;
  });
}

/** Returns a field as the audit log shows it. Damaged limits are null. */
function readable(field: 'name' | 'plan' | 'limits' | 'status', row: AccountRow): unknown {
  return field === 'limits' ? (readLimits(row.limits) ?? null) : row[field];
}

const FIELD_ACTIONS = {
  name: 'account.rename',
  plan: 'account.set_plan',
  limits: 'account.set_limits',
} as const satisfies Record<string, AuditAction>;

const STATUS_ACTIONS: Readonly<Record<AccountStatus, AuditAction>> = {
  active: 'account.resume',
  suspended: 'account.suspend',
  closed: 'account.close',
};

/**
 * Reads and locks the row until the transaction ends, for changes that depend on the state of the account, its members
 * or its invitations. Does not block new rows that refer to the account. Rejects with a `ServiceError` `not_found`.
 */
export async function lockAccount(transaction: Transaction, id: string): Promise<AccountRow> {
  const row = await transaction
    .selectFrom('accounts')
    .select(COLUMNS)
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (row === undefined) throw noSuchAccount();
  return row;
}

function checkedStatus(id: string, status: AccountStatus): AccountStatus {
  if (status !== 'closed' || id !== DEFAULT_ACCOUNT_ID) return status;
  throw new ServiceError('conflict', 'The default account cannot be closed. Suspend it instead.', {
    param: 'status',
  });
}

export function noSuchAccount(): ServiceError {
  return new ServiceError('not_found', 'This account does not exist.', { param: 'id' });
}
