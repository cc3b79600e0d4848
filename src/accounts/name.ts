import { ServiceError } from '../errors.ts';

const MAX_NAME = 100;

/**
 * A name as it is kept, without spaces around it. Names are shown in terminals and logs, so nothing that moves a
 * cursor may stand in them. Throws a `ServiceError` `invalid_value` (param `name`) that says whose it is.
 */
export function checkedName(name: string, whose: 'account' | 'key' | 'person'): string {
  const trimmed = name.trim();
  if (
    trimmed === '' ||
    trimmed.length > MAX_NAME ||
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(trimmed) ||
    !trimmed.isWellFormed()
  ) {
    throw new ServiceError(
      'invalid_value',
      `${whose === 'account' ? 'An' : 'A'} ${whose}'s name has 1 to ${MAX_NAME} characters, none of them a control character.`,
      { param: 'name' },
    );
  }
  return trimmed;
}
