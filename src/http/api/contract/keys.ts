import { z } from 'zod';
import { MAX_MODELS } from '../../../accounts/bounds.ts';
import { modelId } from '../../../config/plan.ts';
import { limits } from './limits.ts';
import { operations } from './operation.ts';
import { component, id, moment, name, pageOf, pageQuery, time } from './schemas.ts';

const kind = z
  .enum(['caller', 'admin'])
  .describe('`caller`: may generate; `admin`: may also call this management interface.');
const purpose = z
  .enum(['api', 'playground'])
  .describe('`playground`: made by the console for its playground, for an hour.');
const allowedModels = z.array(modelId).min(1).max(MAX_MODELS).nullable();
const modelsMeaning = 'Ids of the models that it may use; null: all.';
const limitsMeaning = "Limits of its own, which hold beside those of its account's plan; null: none.";

const keyFields = {
  id: z.string(),
  account_id: z.string(),
  kind,
  purpose,
  name: z.string(),
  prefix: z.string().describe('The first characters of the key.'),
  last_four: z.string().describe('Its last four characters.'),
  status: z.enum(['live', 'revoked', 'expired']),
  allowed_models: allowedModels.describe(modelsMeaning),
  limits: limits.nullable().describe(limitsMeaning),
  created_at: time,
  expires_at: time.nullable().describe('From this moment on it is refused; null: never by itself.'),
  revoked_at: time.nullable(),
  last_used_at: time.nullable().describe('Right to the minute; null: never.'),
  last_used_ip: z.string().nullable().describe('The address that it was last used from.'),
};

/** A key, without the key itself. */
export const key = component('Key', z.object(keyFields));

/** What people may set. */
const settings = {
  expires_at: moment
    .nullable()
    .optional()
    .describe('From this moment on it is refused, at once where it is past; null: it does not expire.'),
  allowed_models: allowedModels.optional().describe(modelsMeaning),
  limits: limits.nullable().optional().describe(limitsMeaning),
};

/** What people have set. */
export type KeySettings = { [Field in keyof typeof settings]?: z.output<(typeof settings)[Field]> };

/** API keys. */
export const keyOperations = operations({
  listKeys: {
    method: 'GET',
    path: '/api/keys',
    summary: 'List the keys of an account, or for operators of all, revoked ones too, the oldest first.',
    access: 'member',
    query: z.strictObject({
      account_id: id
        .optional()
        .describe('Only those of this account. Left out: of all, which operators alone may see.'),
      purpose: purpose.optional().describe('Left out: `api`.'),
      ...pageQuery,
    }),
    answer: pageOf('KeyPage', key),
    errors: ['missing_required_parameter', 'not_found'],
  },
  createKey: {
    method: 'POST',
    path: '/api/keys',
    summary: 'Make a key. The key itself is in this answer and can never be read again.',
    access: 'member',
    status: 201,
    body: component(
      'NewKey',
      z.strictObject({
        account_id: id.optional().describe('Left out: `default`, for operators alone.'),
        kind: kind.optional().describe('`caller` unless said otherwise; operators alone make `admin`.'),
        name,
        ...settings,
      }),
    ),
    answer: component(
      'CreatedKey',
      z.object({ ...keyFields, key: z.string().describe('The key, `sk-sluice-…`.') }),
    ),
    errors: ['not_found', 'conflict'],
  },
  getKey: {
    method: 'GET',
    path: '/api/keys/{id}',
    summary: 'Show one key, without the key itself.',
    access: 'member',
    answer: key,
    errors: ['not_found'],
  },
  changeKey: {
    method: 'PATCH',
    path: '/api/keys/{id}',
    summary: 'Change what a key may do; what is left out stays, and `limits` replaces all of its limits.',
    access: 'member',
    body: component('KeyChange', z.strictObject({ name: name.optional(), ...settings })),
    answer: key,
    errors: ['not_found', 'conflict'],
  },
  revokeKey: {
    method: 'POST',
    path: '/api/keys/{id}/revoke',
    summary: 'Revoke a key for ever: within a second nothing is opened by it, and what it runs is ended.',
    access: 'member',
    answer: key,
    errors: ['not_found'],
  },
  createPlaygroundKey: {
    method: 'POST',
    path: '/api/playground-keys',
    summary: "Make a caller's key that lives for an hour, for trying models out on an account's limits.",
    access: 'member',
    status: 201,
    body: component('NewPlaygroundKey', z.strictObject({ account_id: id })),
    answer: component(
      'PlaygroundKey',
      z.object({ id: z.string(), key: z.string().describe('The key, `sk-sluice-…`.'), expires_at: time }),
    ),
    errors: ['not_found', 'conflict'],
  },
});
