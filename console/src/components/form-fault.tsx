import type { ApiError } from '../api/client.ts';
import { Notice } from './states.tsx';

/** What the service said of this field; null: nothing. */
export function faultAt(error: ApiError | null, param: string): string | null {
  return error?.param === param ? error.message : null;
}

/** What the service said that belongs beside none of a form's fields. */
export function FormFault({ error, fields = [] }: { error: ApiError | null; fields?: readonly string[] }) {
  if (error === null || (error.param !== null && fields.includes(error.param))) return null;
  return <Notice tone="bad">{error.message}</Notice>;
}
