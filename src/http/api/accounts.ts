import { z } from 'zod';
import {
  changeAccount,
  createAccount,
  getAccount,
  listAccounts,
  planNamed,
  planUse,
  type AccountRecord,
} from '../../accounts/accounts.ts';
import { endpoint, type Endpoint } from './endpoint.ts';
import { limits, limitsJson } from './limits-json.ts';
import { component, iso, pageJson, pageOf, pageQuery, time } from './schemas.ts';

const name = z.string().describe('What people call it: 1 to 100 characters.');
const plan = z.string().nullable().describe('Name of a plan of the configuration; null: the default plan.');
const status = z
  .enum(['active', 'suspended', 'closed'])
  .describe('Keys of an account that is not active open nothing. A closed account stays closed.');

const account = component(
  'Account',
  z.object({ id: z.string(), name: z.string(), plan, status, created_at: time }),
);

const planInUse = component(
  'Plan',
  z.object({
    name: z.string(),
    default: z.boolean().describe('Whether accounts that have no plan of their own are on it.'),
    accounts: z.int().describe('How many accounts are on it, closed ones aside.'),
    limits: limits
      .nullable()
      .describe(
        'Null: the configuration has no plan of this name any more, and its accounts may use nothing.',
      ),
  }),
);

/** Accounts, and the plans that they are on. */
export const accountEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/api/accounts',
    operationId: 'listAccounts',
    summary: 'List all accounts, the oldest first.',
    query: z.strictObject(pageQuery),
    answer: pageOf('AccountPage', account),
    handle: async ({ database, query }) => pageJson(await listAccounts(database, query), accountJson),
  }),
  endpoint({
    method: 'POST',
    path: '/api/accounts',
    operationId: 'createAccount',
    summary: 'Make an account.',
    status: 201,
    body: component('NewAccount', z.strictObject({ name, plan: plan.optional() })),
    answer: account,
    handle: async ({ database, plans, actor, body }) => {
      const wanted = { name: body.name, plan: planNamed(plans, body.plan ?? null) };
      return accountJson(await createAccount(database, wanted, actor));
    },
  }),
  endpoint({
    method: 'GET',
    path: '/api/accounts/{id}',
    operationId: 'getAccount',
    summary: 'Show one account.',
    answer: account,
    errors: ['not_found'],
    handle: async ({ database, params }) => accountJson(await getAccount(database, params.id)),
  }),
  endpoint({
    method: 'PATCH',
    path: '/api/accounts/{id}',
    operationId: 'changeAccount',
    summary: 'Change name, plan or status of an account; what is left out stays.',
    body: component(
      'AccountChange',
      z.strictObject({ name: name.optional(), plan: plan.optional(), status: status.optional() }),
    ),
    answer: account,
    errors: ['not_found'],
    handle: async ({ database, plans, actor, params, body }) => {
      const plan = body.plan === undefined ? undefined : planNamed(plans, body.plan);
      return accountJson(await changeAccount(database, params.id, { ...body, plan }, actor));
    },
  }),
  endpoint({
    method: 'GET',
    path: '/api/plans',
    operationId: 'listPlans',
    summary: 'List the plans of the configuration, and how many accounts are on each.',
    answer: pageOf('PlanPage', planInUse),
    handle: async ({ database, plans }) => {
      const items = await planUse(database, plans);
      return pageJson({ items, nextCursor: null }, ({ name, isDefault, accounts, limits }) => ({
        name,
        default: isDefault,
        accounts,
        limits: limits && limitsJson(limits),
      }));
    },
  }),
];

function accountJson({ id, name, plan, status, createdAt }: AccountRecord): z.input<typeof account> {
  return { id, name, plan, status, created_at: iso(createdAt) };
}
