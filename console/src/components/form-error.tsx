import type { ApiError } from '../api/client.ts';
import { CodeText } from './code-text.tsx';
import { isAbout } from './field-errors.ts';
import { Notice } from './states.tsx';

/** Shows an error, unless it is about one of `fields`: those show their own errors. */
export function FormError({ error, fields = [] }: { error: ApiError | null; fields?: readonly string[] }) {
  if (error === null || fields.some((param) => isAbout(error, param))) return null;
  return (
    <Notice tone="bad">
      <CodeText text={error.message} />
    </Notice>
  );
}
