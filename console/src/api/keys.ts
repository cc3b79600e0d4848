import { useRead } from './queries.ts';

/** Maximum number of keys in one list. */
const MAX_KEYS = 1000;

/** Loads the keys of an account, or of all accounts if the query is empty. Playground keys are not included. */
export function useKeys(query: { account_id?: string }, options: { enabled?: boolean } = {}) {
  return useRead('listKeys', { query: { ...query, limit: MAX_KEYS } }, options);
}
