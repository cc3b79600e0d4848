import type { z } from 'zod';
import {
  changeAccount,
  createAccount,
  getAccount,
  listAccounts,
  findPlan,
  listPlanUsage,
  type AccountRecord,
} from '../../accounts/accounts.ts';
import { operatorsOnly } from './access.ts';
import { accountOperations, type account } from './contract/accounts.ts';
import { endpoints } from './endpoint.ts';
import { iso, pageJson } from './json.ts';
import { limitsJson } from './limits-json.ts';
import { inPath } from './of-account.ts';

/** Accounts, and the plans that they are on. */
export const accountEndpoints = endpoints(accountOperations, {
  listAccounts: async ({ database, query }) => pageJson(await listAccounts(database, query), accountJson),
  createAccount: async ({ database, plans, actor, body }) => {
    const wanted = { name: body.name, plan: findPlan(plans, body.plan ?? null) };
    return accountJson(await createAccount(database, wanted, actor));
  },
  getAccount: {
    account: inPath,
    handle: async ({ database, params }) => accountJson(await getAccount(database, params.id)),
  },
  changeAccount: {
    account: inPath,
    handle: async ({ database, plans, principal, actor, params, body }) => {
      const ofOperators = (['plan', 'status'] as const).find((field) => body[field] !== undefined);
      if (ofOperators !== undefined && !principal.operator)
        throw operatorsOnly(`Changing \`${ofOperators}\``);
      const plan = body.plan === undefined ? undefined : findPlan(plans, body.plan);
      return accountJson(await changeAccount(database, params.id, { ...body, plan }, actor));
    },
  },
  listPlans: async ({ database, plans }) => {
    const items = await listPlanUsage(database, plans);
    return pageJson({ items, nextCursor: null }, ({ name, isDefault, accounts, limits }) => ({
      name,
      default: isDefault,
      accounts,
      limits: limits && limitsJson(limits),
    }));
  },
});

function accountJson({ id, name, plan, status, createdAt }: AccountRecord): z.input<typeof account> {
  return { id, name, plan, status, created_at: iso(createdAt) };
}
