import {
  changeAccount,
  createAccount,
  getAccount,
  listAccounts,
  findPlan,
  listPlans,
} from '../../accounts/accounts.ts';
import type { PlanLimits } from '../../config/plan.ts';
import { operatorRequired } from './access.ts';
import { accountOperations } from './contract/accounts.ts';
import { ACCOUNTS, endpoints } from './endpoint.ts';
import { accountJson, pageJson } from './json.ts';
import { changedLimits, limitsJson } from './limits-json.ts';

export const accountEndpoints = endpoints(
  accountOperations,
  {
    listAccounts: async ({ database, query }) => pageJson(await listAccounts(database, query), accountJson),
    createAccount: async ({ database, plans, actor, body }) => {
      const values = { name: body.name, plan: findPlan(plans, body.plan ?? null) };
      return accountJson(await createAccount(database, values, actor));
    },
    getAccount: async ({ database, params }) => accountJson(await getAccount(database, params.id)),
    changeAccount: async ({ database, plans, principal, actor, params, body }) => {
      const restricted = (['plan', 'limits', 'status'] as const).find((field) => body[field] !== undefined);
      if (restricted !== undefined && !principal.operator)
        throw operatorRequired(`Changing \`${restricted}\``);
      const plan = body.plan === undefined ? undefined : findPlan(plans, body.plan);
      const { limits: own, previous_limits: seen, ...others } = body;
      const limits =
        own === undefined ? undefined : (now: PlanLimits | null) => changedLimits(now, own, seen);
      return accountJson(await changeAccount(database, params.id, { ...others, plan, limits }, actor));
    },
    listPlans: async ({ database, plans }) => {
      const items = await listPlans(database, plans);
      return pageJson({ items, nextCursor: null }, ({ name, isDefault, accounts, limits, weight }) => ({
        name,
        default: isDefault,
        accounts,
        limits: limits && limitsJson(limits),
        weight,
      }));
    },
  },
  ACCOUNTS,
);
