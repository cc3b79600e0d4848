import { z } from 'zod';
import { limits, limitsChange, previousLimits } from './limits.ts';
import { operations } from './operation.ts';
import { component, name, pageOf, pageQuery, time } from './schemas.ts';

const plan = z.string().nullable().describe('Plan of the account; null: the default plan.');
const LIMITS_DESCRIPTION =
  "The account's own limits; null: none. Each takes the place of the plan's limit of the same name, and those of a model the place of the plan's for that model.";
const status = z
  .enum(['active', 'suspended', 'closed'])
  .describe('The keys of a suspended or closed account are refused. A closed account cannot be reopened.');

export const account = component(
  'Account',
  z.object({
    id: z.string(),
    name: z.string(),
    plan,
    limits: limits.nullable().describe(LIMITS_DESCRIPTION),
    limits_damaged: z
      .boolean()
      .describe(
        'Whether its own limits in the database cannot be read, so that requests with its keys are refused until they are set again. `limits` is then null.',
      ),
    status,
    created_at: time,
  }),
);

const planInUse = component(
  'Plan',
  z.object({
    name: z.string(),
    default: z.boolean().describe('Whether this is the plan of accounts without an assigned plan.'),
    accounts: z.int().describe('Number of accounts on the plan, excluding closed ones.'),
    limits: limits
      .nullable()
      .describe(
        'Null: the plan is no longer in the configuration, and requests of its accounts are refused.',
      ),
    weight: z
      .number()
      .nullable()
      .describe(
        "An account's share of a model when requests of several accounts wait for it, relative to accounts on other plans; null if `limits` is null.",
      ),
  }),
);

export const accountOperations = operations({
  listAccounts: {
    route: 'GET /api/accounts',
    summary: 'List all accounts, oldest first.',
    access: 'operator',
    query: z.strictObject(pageQuery),
    response: pageOf('AccountPage', account),
  },
  createAccount: {
    route: 'POST /api/accounts',
    summary: 'Create an account.',
    access: 'operator',
    status: 201,
    body: component('NewAccount', z.strictObject({ name, plan: plan.optional() })),
    response: account,
    errors: ['not_found'],
  },
  getAccount: {
    route: 'GET /api/accounts/{id}',
    summary: 'Get an account.',
    access: 'member',
    response: account,
    errors: ['not_found'],
  },
  changeAccount: {
    route: 'PATCH /api/accounts/{id}',
    summary:
      'Update the name, plan, limits or status of an account. Omitted fields and limits stay unchanged; a limit that is null is removed. Only operators can change the plan, the limits and the status.',
    access: 'owner',
    body: component(
      'AccountChange',
      z.strictObject({
        name: name.optional(),
        plan: plan.optional(),
        limits: limitsChange.nullable().optional().describe(LIMITS_DESCRIPTION),
        previous_limits: previousLimits,
        status: status.optional(),
      }),
    ),
    response: account,
    errors: ['not_found', 'conflict'],
  },
  listPlans: {
    route: 'GET /api/plans',
    summary: 'List the plans and the number of accounts on each.',
    access: 'operator',
    response: pageOf('PlanPage', planInUse),
  },
});
