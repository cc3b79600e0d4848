import { CircleAlert } from 'lucide-react';
import { useEffect, useState } from 'react';
import { Button } from '../../components/button.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { wait } from '../../format/time.ts';
import type { Fault as FaultData } from './answer.ts';
import { useActions, useIsRunning } from './state.tsx';
import { NUMBERS } from './settings.ts';

/** An error with a retry button and, for invalid parameters, a reset button. */
export function Fault({ fault, onRetry }: { fault: FaultData; onRetry: () => void }) {
  const { change } = useActions();
  const isRunning = useIsRunning();
  const waitMs = useWait(fault.retryAtMs);
  const parameter = NUMBERS.find(({ name }) => name === fault.param);
  return (
    <div role="alert" className="rounded-lg bg-bad-soft px-3.5 py-3 text-sm">
      <p className="flex gap-2.5">
        <CircleAlert className="mt-0.5 size-4 shrink-0 text-bad" aria-hidden="true" />
        <span className="min-w-0 break-words text-ink">
          <CodeText text={fault.message} />
        </span>
      </p>
      <div className="mt-2 flex flex-wrap items-center gap-x-3 gap-y-2 pl-6.5">
        <Button size="small" disabled={isRunning || waitMs > 0} onClick={onRetry}>
          {waitMs > 0 ? `Try again in ${wait(waitMs)}` : 'Try again'}
        </Button>
        {parameter && (
          <Button
            size="small"
            kind="quiet"
            onClick={() => change({ type: 'number', name: parameter.name, typed: '' })}
          >
            Reset {parameter.label.toLowerCase()}
          </Button>
        )}
        <span className="font-mono text-2xs break-all text-ink-2">
          {fault.code}
          {fault.requestId !== null && ` · ${fault.requestId}`}
        </span>
      </div>
    </div>
  );
}

/** Longer waits show no countdown and leave the retry button enabled. */
const LONGEST_COUNTDOWN_MS = 10 * 60_000;

/** Returns the remaining milliseconds and keeps them up to date; 0: past, or too far away for a countdown. */
function useWait(untilMs: number | null): number {
  const [nowMs, setNow] = useState(() => Date.now());
  const leftMs = untilMs === null ? 0 : untilMs - nowMs;
  const counts = leftMs > 0 && leftMs <= LONGEST_COUNTDOWN_MS;
  useEffect(() => {
    if (!counts) return;
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, [counts]);
  return counts ? leftMs : 0;
}
