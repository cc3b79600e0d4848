import { useState } from 'react';
import type { ApiError } from '../api/client.ts';

/** Error messages by the API name of their field. */
export type FieldErrors = Readonly<Record<string, string>>;

const NO_ERRORS: FieldErrors = {};

/**
 * Returns a function that returns the error message of a field, if any: from the validation of the last submission, else
 * from the service. The message disappears while the value of the field differs from the one that was refused.
 */
export function useFieldErrors(
  error: ApiError | null,
  errors: FieldErrors = NO_ERRORS,
): (param: string, value: unknown) => string | null {
  const [refused, setRefused] = useState({ error, errors, values: new Map<string, unknown>() });
  if (refused.error !== error || refused.errors !== errors) setRefused({ error, errors, values: new Map() });
  return (param, value) => {
    const message = errors[param] ?? (isAbout(error, param) ? error.message : null);
    if (message === null) return null;
    // The first render after a submission still has the refused value.
    if (!refused.values.has(param)) refused.values.set(param, value);
    return refused.values.get(param) === value ? message : null;
  };
}

/** Returns whether an error is about a field or a part of it. */
export function isAbout(error: ApiError | null, param: string): error is ApiError {
  const about = error?.param ?? '';
  return about === param || (about.startsWith(param) && /^[.[]/.test(about.slice(param.length)));
}
