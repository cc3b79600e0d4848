import { Check } from 'lucide-react';

const STEPS = ['User', 'API key', 'First request'] as const;

/** The steps of the setup; `at`: current step, from 0. */
export function Steps({ at }: { at: number }) {
  return (
    <ol aria-label="Steps" className="mb-6 flex items-center justify-center gap-2 text-xs">
      {STEPS.map((step, index) => (
        <li key={step} aria-current={index === at ? 'step' : undefined} className="flex items-center gap-2">
          {index > 0 && <span className="h-px w-4 bg-line-strong sm:w-8" aria-hidden="true" />}
          <span
            className={`flex size-5 items-center justify-center rounded-full text-2xs font-semibold tabular-nums ${
              index <= at ? 'bg-accent text-accent-ink' : 'border border-line-strong text-ink-3'
            }`}
          >
            {index < at ? (
              <>
                <Check className="size-3" strokeWidth={3} />
                <span className="sr-only">Done:</span>
              </>
            ) : (
              index + 1
            )}
          </span>
          <span className={index === at ? 'font-medium text-ink' : 'text-ink-3'}>{step}</span>
        </li>
      ))}
    </ol>
  );
}
