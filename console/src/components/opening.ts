import { useState } from 'react';

/**
 * Returns a React key for a dialog about a subject, null: closed. It changes each time the dialog opens, so that nothing of
 * the last time is left: a question, input, or a request that is still running. While the dialog closes, the key stays.
 */
export function useOpening(subject: string | null): number {
  const [last, setLast] = useState({ subject, openings: 0 });
  if (subject === last.subject) return last.openings;
  const openings = last.openings + (subject === null ? 0 : 1);
  setLast({ subject, openings });
  return openings;
}

/** Returns whether the value is or was true: dialogs load when first opened, and stay mounted so that they can animate
 * when closing. */
export function useWasTrue(value: boolean): boolean {
  const [was, setWas] = useState(value);
  if (value && !was) setWas(true);
  return value || was;
}
