import { z } from 'zod';
import { MAX_MODELS } from '../../accounts/key-fields.ts';
import { keyStatus, type KeyRecord } from '../../accounts/key-record.ts';
import { changeKey, createKey, getKey, listKeyPage, noSuchKey, revokeKey } from '../../accounts/key-table.ts';
import { modelId } from '../../config/plan.ts';
import { endpoint, type Endpoint } from './endpoint.ts';
import { limits, limitsJson, limitsOf } from './limits-json.ts';
import { component, id, iso, moment, pageJson, pageOf, pageQuery, time } from './schemas.ts';

const name = z.string().describe('What people call it: 1 to 100 characters.');
const kind = z
  .enum(['caller', 'admin'])
  .describe('`caller`: may generate; `admin`: may also call this management interface.');
const allowedModels = z.array(modelId).min(1).max(MAX_MODELS).nullable();
const modelsMeaning = 'Ids of the models that it may use; null: all.';
const limitsMeaning = "Limits of its own, which hold beside those of its account's plan; null: none.";

const keyFields = {
  id: z.string(),
  account_id: z.string(),
  kind,
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
};
const key = component('Key', z.object(keyFields));

/** What people may set. */
const settings = {
  expires_at: moment.nullable().optional().describe('In the future; null: it does not expire.'),
  allowed_models: allowedModels.optional().describe(modelsMeaning),
  limits: limits.nullable().optional().describe(limitsMeaning),
};

/** API keys. */
export const keyEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/api/keys',
    operationId: 'listKeys',
    summary: 'List the keys of all accounts or of one, revoked ones too, the oldest first.',
    query: z.strictObject({
      account_id: id.optional().describe('Only those of this account.'),
      ...pageQuery,
    }),
    answer: pageOf('KeyPage', key),
    handle: async ({ database, query }) => {
      const filter = { accountId: query.account_id };
      return pageJson(await listKeyPage(database, filter, query), keyJson);
    },
  }),
  endpoint({
    method: 'POST',
    path: '/api/keys',
    operationId: 'createKey',
    summary: 'Make a key. The key itself is in this answer and can never be read again.',
    status: 201,
    body: component(
      'NewKey',
      z.strictObject({
        account_id: id.optional().describe('Left out: `default`.'),
        kind: kind.optional(),
        name,
        ...settings,
      }),
    ),
    answer: component(
      'CreatedKey',
      z.object({ ...keyFields, key: z.string().describe('The key, `sk-sluice-…`.') }),
    ),
    handle: async ({ database, actor, body }) => {
      const wanted = { ...settingsOf(body), name: body.name, kind: body.kind, accountId: body.account_id };
      const made = await createKey(database, wanted, actor);
      return { ...keyJson(made.record), key: made.key.reveal() };
    },
  }),
  endpoint({
    method: 'GET',
    path: '/api/keys/{id}',
    operationId: 'getKey',
    summary: 'Show one key, without the key itself.',
    answer: key,
    errors: ['not_found'],
    handle: async ({ database, params }) => keyJson(await getKey(database, params.id)),
  }),
  endpoint({
    method: 'PATCH',
    path: '/api/keys/{id}',
    operationId: 'changeKey',
    summary: 'Change what a key may do; what is left out stays, and `limits` replaces all of its limits.',
    body: component('KeyChange', z.strictObject({ name: name.optional(), ...settings })),
    answer: key,
    errors: ['not_found'],
    handle: async ({ database, actor, params, body }) => {
      const change = { ...settingsOf(body), name: body.name };
      return keyJson(found(await changeKey(database, idOnly(params.id), () => change, actor)));
    },
  }),
  endpoint({
    method: 'POST',
    path: '/api/keys/{id}/revoke',
    operationId: 'revokeKey',
    summary: 'Revoke a key for ever: within a second nothing is opened by it, and what it runs is ended.',
    answer: key,
    errors: ['not_found'],
    handle: async ({ database, actor, params }) =>
      keyJson(found(await revokeKey(database, idOnly(params.id), actor))),
  }),
];

type Settings = { [K in keyof typeof settings]?: z.output<(typeof settings)[K]> };

function settingsOf({ expires_at: expiry, allowed_models: allowedModels, limits }: Settings) {
  return {
    expiresAt: typeof expiry === 'string' ? Date.parse(expiry) : expiry,
    allowedModels,
    limits: limits && limitsOf(limits),
  };
}

/** A key may be named in other ways where nobody logs it; in a path it has to be by its id. */
function idOnly(id: string): string {
  if (!id.startsWith('key_')) throw noSuchKey();
  return id;
}

function found(record: KeyRecord | null): KeyRecord {
  if (record === null) throw noSuchKey();
  return record;
}

function keyJson(record: KeyRecord): z.input<typeof key> {
  return {
    id: record.id,
    account_id: record.accountId,
    kind: record.kind,
    name: record.name,
    prefix: record.prefix,
    last_four: record.lastFour,
    status: keyStatus(record, Date.now()),
    allowed_models: record.allowedModels && [...record.allowedModels],
    limits: record.limits && limitsJson(record.limits),
    created_at: iso(record.createdAt),
    expires_at: iso(record.expiresAt),
    revoked_at: iso(record.revokedAt),
    last_used_at: iso(record.lastUsedAt),
  };
}
