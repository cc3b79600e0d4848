import { classNames } from '../../components/class-names.ts';
import { useActions, usePlayground } from './state.tsx';
import { isUnused, type Draft } from './draft.ts';

interface Starter {
  title: string;
  values: Partial<Pick<Draft, 'system' | 'input' | 'prompt'>>;
}

const CHATS: readonly Starter[] = [
  {
    title: 'Explain a concept',
    values: { input: 'Why is the sky blue? Explain it to a ten-year-old in three sentences.' },
  },
  {
    title: 'Write a function',
    values: {
      input:
        'Write a TypeScript function that groups an array of objects by a key, with a short usage example.',
    },
  },
  {
    title: 'Play a role',
    values: {
      system: 'You are the harbor master of a small port in 1890. You are brief and a little gruff.',
      input: 'Where can I moor my sailboat for the night?',
    },
  },
];

const TEXTS: readonly Starter[] = [
  { title: 'Continue a story', values: { prompt: 'The lighthouse had been dark for three nights when' } },
  { title: 'Complete a list', values: { prompt: 'Rivers of Europe, from west to east:\n1. Tagus\n2.' } },
  {
    title: 'Complete a function',
    values: { prompt: '# Returns the n-th Fibonacci number.\ndef fibonacci(n: int) -> int:\n' },
  },
];

/** Prompt starters of an unused playground. They are filled in but not sent. */
export function Starters({ className }: { className: string }) {
  const { draft } = usePlayground();
  const { change } = useActions();
  if (!isUnused(draft)) return null;
  const starters = draft.mode === 'chat' ? CHATS : TEXTS;
  return (
    <ul aria-label="Prompt starters" className={classNames('grid gap-2 sm:grid-cols-3', className)}>
      {starters.map(({ title, values }) => (
        <li key={title}>
          <button
            type="button"
            onClick={() => change({ type: 'set', values })}
            className="h-full w-full rounded-lg border border-line px-3 py-2 text-left transition-colors hover:bg-hover"
          >
            <span className="block truncate text-xs font-medium">{title}</span>
            <span className="line-clamp-1 text-2xs text-ink-3 sm:line-clamp-2">
              {values.input ?? values.prompt}
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}
