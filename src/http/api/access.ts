import { ServiceError } from '../../errors.ts';
import { invalidKey } from '../authenticate.ts';
import type { Principal } from '../principal.ts';
import type { Endpoint } from './endpoint.ts';

/**
 * Refuses a principal who may not call this endpoint whatever account the call concerns; null is somebody unknown.
 * Throws a `ServiceError` `invalid_api_key`, `sign_in_required` or `admin_required`.
 */
export function checkCaller({ access }: Endpoint, principal: Principal | null): void {
  if (access === 'open') return;
  if (access === 'signed-in') {
    if (principal?.signedIn) return;
    throw new ServiceError('sign_in_required', 'You must be signed in.');
  }
  if (principal === null) throw invalidKey(undefined);
  const needed = principal.key ? access !== 'any' && access !== 'account' : access === 'operator';
  if (needed && !principal.operator) throw operatorsOnly('This endpoint');
}

/**
 * The account that a call concerns, once it is known that the principal may act for it; null: all of them. Somebody
 * else's is not there, in the same words as one that nobody has. Throws a `ServiceError` `not_found`,
 * `owner_required`, or `missing_required_parameter` where an account has to be named.
 */
export function checkedAccount(
  { access }: Endpoint,
  principal: Principal,
  wanted: string | undefined,
  missing: () => ServiceError,
): string | null {
  if (principal.operator) return wanted ?? null;
  if (principal.key) {
    const { accountId } = principal.key;
    if (wanted !== undefined && wanted !== accountId) throw missing();
    return accountId;
  }
  if (wanted === undefined) {
    throw new ServiceError('missing_required_parameter', '`account_id` is required.', {
      param: 'account_id',
    });
  }
  const role = principal.roles.get(wanted);
  if (role === undefined) throw missing();
  if (access !== 'owner' || role === 'owner') return wanted;
  throw new ServiceError('owner_required', 'You must be an owner of the account.');
}

/** What is said to those who want `what`, such as `'plan'`, and are no operators. */
export function operatorsOnly(what: string): ServiceError {
  return new ServiceError(
    'admin_required',
    `${what} requires an API key of the kind \`admin\`, or an operator.`,
  );
}
