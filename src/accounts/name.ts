import { ServiceError } from '../errors.ts';
import { hasLength, MAX_NAME, NAME } from './bounds.ts';

/**
 * Trims and checks a name. Names are shown in terminals and logs, so they have no characters that move a cursor.
 * Throws a `ServiceError` `invalid_value` (param `name`).
 */
export function checkedName(name: string, owner: 'account' | 'key' | 'person'): string {
  if (hasLength(name, 1, MAX_NAME) && NAME.test(name) && name.isWellFormed()) return name.trim();
  throw new ServiceError(
    'invalid_value',
    `The name of ${owner === 'account' ? 'an' : 'a'} ${owner} must be 1 to ${MAX_NAME} characters long and must not contain control characters.`,
    { param: 'name' },
  );
}
