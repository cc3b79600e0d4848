import { z } from 'zod';
import { limits } from './limits.ts';
import { operations } from './operation.ts';
import { component, name, pageOf, pageQuery, time } from './schemas.ts';

const plan = z.string().nullable().describe('Name of a plan of the configuration; null: the default plan.');
const status = z
  .enum(['active', 'suspended', 'closed'])
  .describe('Keys of an account that is not active open nothing. A closed account stays closed.');

/** Who pays, and what all of its keys may use together. */
export const account = component(
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
export const accountOperations = operations({
  listAccounts: {
    method: 'GET',
    path: '/api/accounts',
    summary: 'List all accounts, the oldest first.',
    access: 'operator',
    query: z.strictObject(pageQuery),
    answer: pageOf('AccountPage', account),
  },
  createAccount: {
    method: 'POST',
    path: '/api/accounts',
    summary: 'Make an account.',
    access: 'operator',
    status: 201,
    body: component('NewAccount', z.strictObject({ name, plan: plan.optional() })),
    answer: account,
    errors: ['not_found'],
  },
  getAccount: {
    method: 'GET',
    path: '/api/accounts/{id}',
    summary: 'Show one account.',
    access: 'member',
    answer: account,
    errors: ['not_found'],
  },
  changeAccount: {
    method: 'PATCH',
    path: '/api/accounts/{id}',
    summary:
      'Change name, plan or status of an account; what is left out stays. Plan and status are for operators.',
    access: 'owner',
    body: component(
      'AccountChange',
      z.strictObject({ name: name.optional(), plan: plan.optional(), status: status.optional() }),
    ),
    answer: account,
    errors: ['not_found', 'conflict'],
  },
  listPlans: {
    method: 'GET',
    path: '/api/plans',
    summary: 'List the plans of the configuration, and how many accounts are on each.',
    access: 'operator',
    answer: pageOf('PlanPage', planInUse),
  },
});
