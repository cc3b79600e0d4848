import { useEffect, useRef, type RefObject } from 'react';

/** Focuses an element on mount if `wanted`. */
export function useFocus<Focused extends HTMLElement>(wanted = true): RefObject<Focused | null> {
  const element = useRef<Focused>(null);
  const atFirst = useRef(wanted);
  useEffect(() => {
    if (atFirst.current) element.current?.focus();
  }, []);
  return element;
}
