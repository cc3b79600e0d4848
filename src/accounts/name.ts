import { ServiceError } from '../errors.ts';
import { hasLength, MAX_NAME, NAME } from './bounds.ts';

/**
 * Trims and checks a name. Refuses control characters, because names are printed in terminals and logs. Throws a
 * `ServiceError` `invalid_value` (param `name`).
 */
export function checkedName(name: string, owner: 'account' | 'key' | 'user'): string {
  if (hasLength(name, 1, MAX_NAME) && NAME.test(name) && name.isWellFormed()) return name.trim();
  throw new ServiceError(
    'invalid_value',
    `The name of ${owner === 'account' ? 'an' : 'a'} ${owner} must be 1 to ${MAX_NAME} characters long and must not contain control characters.`,
    { param: 'name' },
  );
}
