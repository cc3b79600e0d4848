import type { ApiError } from '../api/client.ts';
import { CodeText } from './code-text.tsx';
import { Notice } from './states.tsx';

/** Returns the error message for this field, if any. */
export function errorAt(error: ApiError | null, param: string): string | null {
  return error?.param === param ? error.message : null;
}

/** Shows an error, unless it is about one of `fields`: those show their own errors. */
export function FormError({ error, fields = [] }: { error: ApiError | null; fields?: readonly string[] }) {
  if (error === null || (error.param !== null && fields.includes(error.param))) return null;
  return (
    <Notice tone="bad">
      <CodeText text={error.message} />
    </Notice>
  );
}
