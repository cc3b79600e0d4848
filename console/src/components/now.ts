import { useSyncExternalStore } from 'react';

interface Clock {
  nowMs: number;
  listen: (changed: () => void) => () => void;
}

/** By interval in milliseconds. Components with the same interval share a timer. */
const clocks = new Map<number, Clock>();

/** Returns the current time in Unix milliseconds, updated at an interval. */
export function useNow(everyMs: number): number {
  const clock = clockOf(everyMs);
  return useSyncExternalStore(clock.listen, () => clock.nowMs);
}

function clockOf(everyMs: number): Clock {
  let clock = clocks.get(everyMs);
  if (clock === undefined) clocks.set(everyMs, (clock = createClock(everyMs)));
  return clock;
}

function createClock(everyMs: number): Clock {
  const listeners = new Set<() => void>();
  let timer: number | undefined;
  const clock: Clock = {
    nowMs: Date.now(),
    listen(changed) {
      listeners.add(changed);
      clock.nowMs = Date.now();
      timer ??= window.setInterval(() => {
        clock.nowMs = Date.now();
        for (const listener of listeners) listener();
      }, everyMs);
      return () => {
        listeners.delete(changed);
        if (listeners.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
  };
  return clock;
}
