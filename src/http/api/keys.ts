import type { z } from 'zod';
import { keyStatus, type KeyRecord } from '../../accounts/key-record.ts';
import { changeKey, createKey, getKey, listKeyPage, noSuchKey, revokeKey } from '../../accounts/key-table.ts';
import type { AccountDatabase } from '../../accounts/store.ts';
import type { Principal } from '../principal.ts';
import { operatorsOnly } from './access.ts';
import { keyOperations, type key, type KeySettings } from './contract/keys.ts';
import { endpoints } from './endpoint.ts';
import { iso, pageJson } from './json.ts';
import { limitsJson, limitsOf } from './limits-json.ts';
import { inBody, inQuery } from './of-account.ts';

/** The account of the key whose id stands in the path. */
const ofKey = {
  find: async ({ database, params }: { database: AccountDatabase; params: { readonly id: string } }) =>
    (await getKey(database, params.id)).accountId,
  missing: noSuchKey,
};

/** How long a key of the playground lives, in milliseconds. */
const PLAYGROUND_MS = 3_600_000;

/** API keys. */
export const keyEndpoints = endpoints(keyOperations, {
  listKeys: {
    account: inQuery,
    handle: async ({ database, context, accountId, query }) => {
      await context.keys.refreshLastUsed();
      const filter = { accountId: accountId ?? undefined, purpose: query.purpose };
      return pageJson(await listKeyPage(database, filter, query), keyJson);
    },
  },
  createKey: {
    account: inBody,
    handle: async ({ database, principal, actor, accountId, body }) => {
      if (body.kind === 'admin' && !principal.operator) throw operatorsOnly('The value `admin` of `kind`');
      const wanted = { ...settingsOf(body), name: body.name, kind: body.kind };
      const made = await createKey(database, { ...wanted, accountId: accountId ?? undefined }, actor);
      return { ...keyJson(made.record), key: made.key.reveal() };
    },
  },
  getKey: {
    account: ofKey,
    handle: async ({ database, context, params }) => {
      await context.keys.refreshLastUsed();
      return keyJson(await getKey(database, params.id));
    },
  },
  changeKey: {
    account: ofKey,
    handle: async ({ database, principal, actor, params, body }) => {
      await refuseAdmins(database, principal, params.id);
      const change = { ...settingsOf(body), name: body.name };
      return keyJson(found(await changeKey(database, idOnly(params.id), () => change, actor)));
    },
  },
  revokeKey: {
    account: ofKey,
    handle: async ({ database, principal, actor, params }) => {
      await refuseAdmins(database, principal, params.id);
      return keyJson(found(await revokeKey(database, idOnly(params.id), actor)));
    },
  },
  createPlaygroundKey: {
    account: inBody,
    handle: async ({ database, actor, body }) => {
      const expiresAt = Date.now() + PLAYGROUND_MS;
      const { key, record } = await createKey(
        database,
        { name: 'Playground', purpose: 'playground', accountId: body.account_id, expiresAt },
        actor,
      );
      return { id: record.id, key: key.reveal(), expires_at: iso(expiresAt) };
    },
  },
});

function settingsOf({ expires_at: expiry, allowed_models: allowedModels, limits }: KeySettings) {
  return {
    expiresAt: typeof expiry === 'string' ? Date.parse(expiry) : expiry,
    allowedModels,
    limits: limits && limitsOf(limits),
  };
}

/** Keys that may manage the whole service are no business of the account that they are in. */
async function refuseAdmins(database: AccountDatabase, principal: Principal, id: string): Promise<void> {
  if (principal.operator || (await getKey(database, id)).kind !== 'admin') return;
  throw operatorsOnly('Changing a key of the kind `admin`');
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
    purpose: record.purpose,
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
    last_used_ip: record.lastUsedIp,
  };
}
