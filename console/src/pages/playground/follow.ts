import { useCallback, useEffect, useRef, useState, type RefObject } from 'react';

/** A reader this near to the end is at the end, in CSS pixels. */
const NEAR = 48;

interface Follow {
  /** Of what scrolls. */
  scroller: RefObject<HTMLDivElement | null>;
  /** Of what is in it, and grows. */
  content: RefObject<HTMLDivElement | null>;
  /** The reader has gone up, and what comes does not move what they read. */
  isAway: boolean;
  /** Goes to the end, and stays there. */
  toEnd: () => void;
}

/** Stays at the end of what grows for as long as it is `active`, unless the reader has gone up. */
export function useFollow(active: boolean): Follow {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const [isAway, setAway] = useState(false);

  const toEnd = useCallback(() => {
    following.current = true;
    scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  }, []);

  useEffect(() => {
    const [frame, inner] = [scroller.current, content.current];
    if (!active || frame === null || inner === null) return;
    let top = frame.scrollTop;
    const onScroll = () => {
      const isNear = frame.scrollHeight - frame.scrollTop - frame.clientHeight < NEAR;
      // Only going up leaves the end: what has grown meanwhile is followed at the next look.
      if (isNear) following.current = true;
      else if (frame.scrollTop < top) following.current = false;
      top = frame.scrollTop;
      setAway(!following.current);
    };
    const grown = new ResizeObserver(() => {
      if (following.current) toEnd();
      else setAway(true);
    });
    grown.observe(inner);
    grown.observe(frame);
    frame.addEventListener('scroll', onScroll, { passive: true });
    return () => {
      grown.disconnect();
      frame.removeEventListener('scroll', onScroll);
    };
  }, [active, toEnd]);

  return { scroller, content, isAway, toEnd };
}
