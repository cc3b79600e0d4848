import { Check } from 'lucide-react';

/** The number of a step in a circle, which is filled once the step has begun; a tick if it is done. */
export function StepNumber({ number, state }: { number: number; state: 'done' | 'current' | 'later' }) {
  return (
    <span
      className={`flex size-5 shrink-0 items-center justify-center rounded-full text-2xs font-semibold tabular-nums ${
        state === 'later' ? 'border border-line-strong text-ink-3' : 'bg-accent text-accent-ink'
      }`}
    >
      {state === 'done' ? (
        <>
          <Check className="size-3" strokeWidth={3} />
          <span className="sr-only">Done:</span>
        </>
      ) : (
        number
      )}
    </span>
  );
}
