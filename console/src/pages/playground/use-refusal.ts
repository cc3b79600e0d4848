import { useState } from 'react';
import { usePlayground } from './state.tsx';

/** Returns the service's error for this field in the last response; null: none, or the value was edited since. */
export function useRefusal(field: string, value: string): string | null {
  const { draft } = usePlayground();
  const refusal =
    draft.columns
      .map(({ turns }) => turns.at(-1)?.answer?.fault ?? null)
      .find((fault) => fault?.param?.match(/^\w+/)?.[0] === field) ?? null;
  const [refused, setRefused] = useState({ refusal, value });
  if (refused.refusal !== refusal) setRefused({ refusal, value });
  return refused.value === value ? (refusal?.message ?? null) : null;
}
