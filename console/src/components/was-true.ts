import { useState } from 'react';

/** Returns whether the value is or was true: dialogs load when first opened, and stay mounted so that they can animate
 * when closing. */
export function useWasTrue(value: boolean): boolean {
  const [was, setWas] = useState(value);
  if (value && !was) setWas(true);
  return value || was;
}
