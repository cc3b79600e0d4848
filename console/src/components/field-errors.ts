import type { ApiError } from '../api/client.ts';

/** Error messages by the API name of their field. */
export type FieldErrors = Readonly<Record<string, string>>;

/** Returns whether an error is about a field or a part of it. */
export function isAbout(error: ApiError | null, param: string): error is ApiError {
  const about = error?.param ?? '';
  return about === param || (about.startsWith(param) && /^[.[]/.test(about.slice(param.length)));
}
