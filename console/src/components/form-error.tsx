import type { ReactNode } from 'react';
import type { ApiError } from '../api/client.ts';
import { CodeText } from './code-text.tsx';
import { isAbout } from './field-errors.ts';
import { Notice } from './states.tsx';

interface FormErrorProps {
  error: ApiError | null;
  /** Fields that show their own errors. */
  fields?: readonly string[];
  /** Shown below the message. */
  children?: ReactNode;
}

/** Shows an error, unless it is about one of `fields`. */
export function FormError({ error, fields = [], children }: FormErrorProps) {
  if (error === null || fields.some((param) => isAbout(error, param))) return null;
  return (
    <Notice tone="bad">
      <CodeText text={error.message} />
      {children}
    </Notice>
  );
}
