import type { ItemOf } from '../../api/client.ts';

type Request = ItemOf<'listRequests'>;

/** Requests of an hour that were refused with the same key and error. */
export type Refusal = ItemOf<'listRefusals'>;

/** A request, or refused requests. */
export type Entry = {
  id: string;
  /** When the request started, or the last one was refused; ISO 8601. */
  at: string;
} & ({ request: Request; refusal: null } | { request: null; refusal: Refusal });

const ofRequest = (request: Request): Entry => ({
  id: request.id,
  at: request.started_at,
  request,
  refusal: null,
});

const REFUSED = 'refused~';

const ofRefusal = (refusal: Refusal): Entry => {
  const { last_at: at, account_id: account, key_id: key, code, param } = refusal;
  // The counts of an hour differ in these. The ID is part of a path.
  const kind = [at.slice(0, 13), account, key, code, param].join('~').replaceAll(/[^\w.~-]/g, '-');
  return { id: REFUSED + kind, at, request: null, refusal };
};

/** Returns whether this is the ID of an entry with refused requests. */
export const isRefusedId = (id: string): boolean => id.startsWith(REFUSED);

/**
 * Merges requests and refused requests, latest first. While `hasMore` requests can be loaded, leaves out what was refused
 * before the last one, because it belongs below requests that are not loaded yet.
 */
export function timelineOf(
  requests: readonly Request[],
  refusals: readonly Refusal[],
  hasMore: boolean,
): Entry[] {
  const oldest = hasMore ? (requests.at(-1)?.started_at ?? '') : '';
  return [
    ...requests.map(ofRequest),
    ...refusals.filter(({ last_at: at }) => at >= oldest).map(ofRefusal),
  ].toSorted((a, b) => (a.at === b.at ? 0 : a.at < b.at ? 1 : -1));
}

/** Returns the number of requests of entries. */
export const countOf = (entries: readonly Entry[]): number =>
  entries.reduce((sum, { refusal }) => sum + (refusal?.count ?? 1), 0);

/** Returns what adjacent entries with the same error have in common; null: not an error. */
export function errorOf({ request, refusal }: Entry): string | null {
  if (refusal !== null) {
    return JSON.stringify([refusal.account_id, refusal.key_id, refusal.code, refusal.param]);
  }
  const { state, error_code: code, http_status: status, model, key_id: key } = request;
  const isError = state === 'interrupted' || (code !== null && code !== 'client_disconnected');
  return isError ? JSON.stringify([state, code, status, model, key]) : null;
}

/** Returns the name of the key of refused requests. */
export const refusedKey = ({ key_name: name, key_id: id, account_id: owner }: Refusal): string =>
  name ?? id ?? (owner === null ? 'No valid key' : 'All keys');
