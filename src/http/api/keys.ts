import {
  type KeyRow,
  changeKey,
  createKey,
  endPreviousSecret,
  getKey,
  listKeyPage,
  noSuchKey,
  readAccess,
  revokeKey,
  revokeKeys,
  rotateKey,
} from '../../accounts/key-table.ts';
import type { AccountDatabase } from '../../accounts/store.ts';
import type { Principal } from '../principal.ts';
import { operatorRequired } from './access.ts';
import { keyOperations, type KeySettings } from './contract/keys.ts';
import { endpoints } from './endpoint.ts';
import { iso, keyJson, pageJson } from './json.ts';
import { changedLimits } from './limits-json.ts';

const KEYS = {
  accountOf: async (database: AccountDatabase, id: string) => (await getKey(database, id)).account_id,
  missing: noSuchKey,
};

/** Lifetime of a playground key. */
const PLAYGROUND_MS = 3_600_000;

export const keyEndpoints = endpoints(
  keyOperations,
  {
    listKeys: async ({ database, context, accountId, query }) => {
      await context.keys.refreshLastUsed();
      const filter = { accountId: accountId ?? undefined, purpose: query.purpose };
      return pageJson(await listKeyPage(database, filter, query), keyJson);
    },
    createKey: async ({ database, context, principal, actor, accountId, body }) => {
      if (body.kind === 'admin' && !principal.operator) throw operatorRequired('The value `admin` of `kind`');
      const limits = body.limits && changedLimits(null, body.limits);
      const values = { ...settingsOf(body), name: body.name, kind: body.kind, limits };
      const { key, record } = await createKey(
        database,
        { ...values, accountId: accountId ?? undefined },
        actor,
        context.settings.keys,
      );
      return { ...keyJson(record), key: key.reveal() };
    },
    getKey: async ({ database, context, params }) => {
      await context.keys.refreshLastUsed();
      return keyJson(await getKey(database, params.id));
    },
    changeKey: async ({ database, context, principal, actor, params, body }) => {
      await refuseAdminKey(database, principal, params.id);
      const settings = { ...settingsOf(body), name: body.name };
      const change = (key: KeyRow) =>
        body.limits === undefined
          ? settings
          : {
              ...settings,
              limits: changedLimits(readAccess(key)?.limits ?? null, body.limits, body.previous_limits),
            };
      const id = checkedKeyId(params.id);
      return keyJson(orNotFound(await changeKey(database, id, change, actor, context.settings.keys)));
    },
    revokeKey: async ({ database, principal, actor, params }) => {
      await refuseAdminKey(database, principal, params.id);
      return keyJson(orNotFound(await revokeKey(database, checkedKeyId(params.id), actor)));
    },
    revokeKeys: async ({ database, principal, actor, accountId, body }) => {
      const check = (key: KeyRow, param: string): void => {
        // A key of another account is treated like one that does not exist.
        if (accountId !== null && key.account_id !== accountId) throw noSuchKey(param);
        assertMayChange(principal, key);
      };
      return { data: (await revokeKeys(database, body.ids, check, actor)).map(keyJson) };
    },
    rotateKey: async ({ database, principal, actor, params, body }) => {
      await refuseAdminKey(database, principal, params.id);
      const expiry = body.previous_expires_at;
      const previousExpiresAt = typeof expiry === 'string' ? Date.parse(expiry) : null;
      const rotated = await rotateKey(database, checkedKeyId(params.id), previousExpiresAt, actor);
      if (rotated === null) throw noSuchKey();
      return { ...keyJson(rotated.record), key: rotated.key.reveal() };
    },
    endPreviousSecret: async ({ database, principal, actor, params }) => {
      await refuseAdminKey(database, principal, params.id);
      return keyJson(orNotFound(await endPreviousSecret(database, checkedKeyId(params.id), actor)));
    },
    createPlaygroundKey: async ({ database, context, principal, actor, body }) => {
      const expiresAt = Math.min(Date.now() + PLAYGROUND_MS, principal.session?.expiresAt ?? Infinity);
      const { key, record } = await createKey(
        database,
        {
          name: 'Playground',
          purpose: 'playground',
          sessionId: principal.session?.id,
          accountId: body.account_id,
          expiresAt,
        },
        actor,
        context.settings.keys,
      );
      return { id: record.id, key: key.reveal(), expires_at: iso(expiresAt) };
    },
  },
  KEYS,
);

function settingsOf({ expires_at: expiry, allowed_models: allowedModels, strict, tags }: KeySettings) {
  return {
    expiresAt: typeof expiry === 'string' ? Date.parse(expiry) : expiry,
    allowedModels,
    strict,
    tags,
  };
}

/** Members of an account may not change its `admin` keys, which manage the whole service. */
async function refuseAdminKey(database: AccountDatabase, principal: Principal, id: string): Promise<void> {
  if (!principal.operator) assertMayChange(principal, await getKey(database, id));
}

function assertMayChange(principal: Principal, { kind }: KeyRow): void {
  if (kind === 'admin' && !principal.operator) throw operatorRequired('Changing a key of the kind `admin`');
}

/** Refuses the secret key or its prefix in a path, because paths are logged. */
function checkedKeyId(id: string): string {
  if (!id.startsWith('key_')) throw noSuchKey();
  return id;
}

function orNotFound(record: KeyRow | null): KeyRow {
  if (record === null) throw noSuchKey();
  return record;
}
