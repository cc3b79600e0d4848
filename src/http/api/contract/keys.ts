import { z } from 'zod';
import { MAX_MODELS, MAX_REVOKED, MAX_TAGS, TAG, TAG_EXPECTED } from '../../../accounts/bounds.ts';
import { modelId } from '../../../config/plan.ts';
import { limits, limitsChange, previousLimits } from './limits.ts';
import { operations } from './operation.ts';
import { component, id, moment, name, pageOf, pageQuery, time } from './schemas.ts';

const kind = z
  .enum(['caller', 'admin'])
  .describe(
    '`caller`: can use models, list them and read the receipts of its account; `admin`: can also manage all accounts and the service.',
  );
const purpose = z
  .enum(['api', 'playground'])
  .describe(
    '`playground`: created by the console for its playground, valid for an hour, and until the session ends.',
  );
const allowedModels = z.array(modelId).min(1).max(MAX_MODELS).nullable();
const MODELS_DESCRIPTION = 'IDs of the models that the key may use; null: all models.';
const strict = z
  .boolean()
  .describe(
    'Whether a request is refused with 400 if something in it would have no effect, as with the header `x-sluice-strict`.',
  );
const tags = z
  .array(z.string().regex(TAG, TAG_EXPECTED))
  .max(MAX_TAGS)
  .describe('Labels of the key, such as `production` or `team:search`, to find it again.');
const LIMITS_DESCRIPTION = "Limits of the key, in addition to those of its account's plan; null: none.";

const keyFields = {
  id: z.string(),
  account_id: z.string(),
  kind,
  purpose,
  name: z.string(),
  prefix: z.string().describe('First characters of the key.'),
  last_four: z.string().describe('Last four characters of the key.'),
  status: z
    .enum(['live', 'revoked', 'expired', 'damaged'])
    .describe(
      '`damaged`: its limits or models in the database cannot be read, so requests with it are refused, and it can only be revoked. Its `limits` and `allowed_models` are then null.',
    ),
  allowed_models: allowedModels.describe(MODELS_DESCRIPTION),
  limits: limits.nullable().describe(LIMITS_DESCRIPTION),
  strict,
  tags,
  created_at: time,
  expires_at: time.nullable().describe('When the key expires; null: never.'),
  revoked_at: time.nullable(),
  last_used_at: time.nullable().describe('Accurate to the minute; null: never.'),
  last_used_ip: z.string().nullable().describe('IP address of the last use.'),
  last_used_client: z
    .string()
    .nullable()
    .describe(
      'Program of the last use, recognized by its `User-Agent`, such as `OpenAI Python`; null: unknown.',
    ),
  previous: z
    .object({
      last_four: z.string().describe('Last four characters of the previous secret.'),
      expires_at: time.describe('When it stops working.'),
      last_used_at: time.nullable().describe('Its last use since the rotation; null: not used.'),
    })
    .nullable()
    .describe('The secret from before the key was rotated, while it still works; null: none.'),
};

export const key = component('Key', z.object(keyFields));

const settings = {
  expires_at: moment
    .nullable()
    .optional()
    .describe('When the key expires; a time in the past expires it immediately; null: never.'),
  allowed_models: allowedModels.optional().describe(MODELS_DESCRIPTION),
  limits: limitsChange.nullable().optional().describe(LIMITS_DESCRIPTION),
  strict: strict.optional(),
  tags: tags.optional(),
};

export type KeySettings = { [Field in keyof typeof settings]?: z.output<(typeof settings)[Field]> };

export const keyOperations = operations({
  listKeys: {
    route: 'GET /api/keys',
    summary:
      'List the keys of an account, oldest first. Operators can list the keys of all accounts. Includes revoked keys.',
    access: 'member',
    query: z.strictObject({
      account_id: id
        .optional()
        .describe('Only keys of this account. Default: keys of all accounts, for operators only.'),
      purpose: purpose.optional().describe('Default: `api`.'),
      ...pageQuery,
    }),
    response: pageOf('KeyPage', key),
    errors: ['missing_required_parameter', 'not_found'],
  },
  createKey: {
    route: 'POST /api/keys',
    summary: 'Create a key. Only this response contains the secret key.',
    access: 'member',
    status: 201,
    body: component(
      'NewKey',
      z.strictObject({
        account_id: id.optional().describe('Default, for operators only: the account `default`.'),
        kind: kind
          .optional()
          .describe('Default: `caller`. Only operators can create keys of the kind `admin`.'),
        name,
        ...settings,
      }),
    ),
    response: component(
      'CreatedKey',
      z.object({ ...keyFields, key: z.string().describe('The secret key, `sk-sluice-…`.') }),
    ),
    errors: ['not_found', 'conflict', 'too_many_keys', 'sign_in_required'],
  },
  getKey: {
    route: 'GET /api/keys/{id}',
    summary: 'Get a key, without the secret key.',
    access: 'member',
    response: key,
    errors: ['not_found'],
  },
  changeKey: {
    route: 'PATCH /api/keys/{id}',
    summary:
      'Update a key. Omitted fields and limits stay unchanged; a limit that is null is removed. The expiry of a playground key can only be moved to an earlier time.',
    access: 'member',
    body: component(
      'KeyChange',
      z.strictObject({ name: name.optional(), ...settings, previous_limits: previousLimits }),
    ),
    response: key,
    errors: ['not_found', 'conflict'],
  },
  revokeKey: {
    route: 'POST /api/keys/{id}/revoke',
    summary:
      'Revoke a key permanently. It stops working within a second, and its running requests are ended.',
    access: 'member',
    response: key,
    errors: ['not_found'],
  },
  revokeKeys: {
    route: 'POST /api/key-revocations',
    summary:
      'Revoke several keys permanently, all or none of them. They stop working within a second, and their running requests are ended.',
    access: 'member',
    body: component(
      'KeysToRevoke',
      z.strictObject({
        account_id: id.optional().describe('Account of the keys. Default: any account, for operators only.'),
        ids: z.array(id).min(1).max(MAX_REVOKED).describe('IDs of the keys.'),
      }),
    ),
    response: component('RevokedKeys', z.object({ data: z.array(key).describe('In the order of `ids`.') })),
    errors: ['missing_required_parameter', 'not_found'],
  },
  rotateKey: {
    route: 'POST /api/keys/{id}/rotate',
    summary:
      'Give a key a new secret. The key keeps its ID, name, limits and usage. Only this response contains the new secret. The previous one can keep working for at most 30 days; one from an earlier rotation stops working.',
    access: 'member',
    body: component(
      'KeyRotation',
      z.strictObject({
        previous_expires_at: moment
          .nullable()
          .optional()
          .describe(
            'When the previous secret stops working; null, a time in the past, or omitted: immediately.',
          ),
      }),
    ),
    response: component(
      'RotatedKey',
      z.object({ ...keyFields, key: z.string().describe('The new secret key, `sk-sluice-…`.') }),
    ),
    errors: ['not_found', 'conflict'],
  },
  endPreviousSecret: {
    route: 'POST /api/keys/{id}/end-previous',
    summary:
      'End the previous secret of a rotated key. It stops working within a second. Requests that are running with it are not ended.',
    access: 'member',
    response: key,
    errors: ['not_found'],
  },
  createPlaygroundKey: {
    route: 'POST /api/playground-keys',
    summary:
      "Create a playground key. It is valid for an hour, but not after the session that created it, and is subject to the account's limits.",
    access: 'member',
    status: 201,
    body: component('NewPlaygroundKey', z.strictObject({ account_id: id })),
    response: component(
      'PlaygroundKey',
      z.object({
        id: z.string(),
        key: z.string().describe('The secret key, `sk-sluice-…`.'),
        expires_at: time,
      }),
    ),
    errors: ['not_found', 'conflict', 'too_many_keys'],
  },
});
