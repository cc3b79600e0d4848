import { ServiceError } from '../../core/errors.ts';
import { invalidKey } from '../authenticate.ts';
import type { Principal } from '../principal.ts';
import type { Endpoint } from './endpoint.ts';

/**
 * Throws a `ServiceError` `invalid_api_key`, `sign_in_required` or `admin_required` if the principal may not call the
 * endpoint at all; `authorizedAccount` checks the account. `principal` is null for an unknown caller.
 */
export function checkCaller({ access }: Endpoint, principal: Principal | null): void {
  if (access === 'open') return;
  if (access === 'signed-in') {
    if (principal?.session) return;
    throw new ServiceError('sign_in_required', 'You must be signed in.');
  }
  if (principal === null) throw invalidKey(undefined);
  const restricted = principal.key ? access !== 'any' && access !== 'account' : access === 'operator';
  if (restricted && !principal.operator) throw operatorRequired('This endpoint');
}

/**
 * Returns the ID of the account that a call is for; null: all accounts. Throws a `ServiceError` `owner_required` or
 * `missing_required_parameter`, or the error of `missing` if the principal has no access to the account.
 */
export function authorizedAccount(
  { access }: Endpoint,
  principal: Principal,
  accountId: string | undefined,
  missing: () => ServiceError,
): string | null {
  if (principal.operator) return accountId ?? null;
  if (principal.key) {
    const own = principal.key.accountId;
    if (accountId !== undefined && accountId !== own) throw missing();
    return own;
  }
  if (accountId === undefined) {
    throw new ServiceError('missing_required_parameter', '`account_id` is required.', {
      param: 'account_id',
    });
  }
  const role = principal.roles.get(accountId);
  if (role === undefined) throw missing();
  if (access !== 'owner' || role === 'owner') return accountId;
  throw new ServiceError('owner_required', 'You must be an owner of the account.');
}

export function operatorRequired(subject: string): ServiceError {
  return new ServiceError('admin_required', `${subject} requires an admin key or an operator.`);
}
