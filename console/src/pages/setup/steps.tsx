import { StepNumber } from '../../components/step-number.tsx';

const STEPS = ['User', 'API key', 'First request'] as const;

/** The steps of the setup; `at`: current step, from 0. */
export function Steps({ at }: { at: number }) {
  return (
    <ol aria-label="Steps" className="mb-6 flex items-center justify-center gap-2 text-xs">
      {STEPS.map((step, index) => (
        <li key={step} aria-current={index === at ? 'step' : undefined} className="flex items-center gap-2">
          {index > 0 && <span className="h-px w-4 bg-line-strong sm:w-8" aria-hidden="true" />}
          <StepNumber number={index + 1} state={index < at ? 'done' : index === at ? 'current' : 'later'} />
          <span className={index === at ? 'font-medium text-ink' : 'text-ink-3'}>{step}</span>
        </li>
      ))}
    </ol>
  );
}
