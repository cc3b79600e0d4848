import { useCallback, useEffect, useRef, useState, type RefObject } from 'react';

/** Distance from the end that counts as the end, in CSS pixels. */
const NEAR = 48;

interface Follow {
  /** Ref of the scroll container. */
  scroller: RefObject<HTMLDivElement | null>;
  /** Ref of the growing content. */
  content: RefObject<HTMLDivElement | null>;
  /** The user has scrolled up, so new content does not scroll the view. */
  isAway: boolean;
  /** Scrolls to the end and follows it. */
  toEnd: () => void;
}

/** Keeps growing content scrolled to the end while `active`, unless the user scrolls up. */
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
      // Only scrolling up stops following. Content that grew in the meantime must not stop it.
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
