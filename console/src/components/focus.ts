import { useEffect, useRef, type RefObject } from 'react';

/** Gives the focus to an element when it appears, where that is what its reader came for. */
export function useFocus<Focused extends HTMLElement>(wanted = true): RefObject<Focused | null> {
  const element = useRef<Focused>(null);
  const atFirst = useRef(wanted);
  useEffect(() => {
    if (atFirst.current) element.current?.focus();
  }, []);
  return element;
}
