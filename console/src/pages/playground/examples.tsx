import { SquareTerminal } from 'lucide-react';
import { useActions, usePlayground } from './context.ts';
import type { Draft } from './draft.ts';

interface Example {
  title: string;
  values: Partial<Pick<Draft, 'system' | 'input' | 'prompt'>>;
}

const CHATS: readonly Example[] = [
  {
    title: 'Explain a concept',
    values: { input: 'Why is the sky blue? Explain it to a ten-year-old in three sentences.' },
  },
  {
    title: 'Write a function',
    values: {
      input:
        'Write a TypeScript function that groups an array of objects by a key, with a short example of its use.',
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

const TEXTS: readonly Example[] = [
  { title: 'Continue a story', values: { prompt: 'The lighthouse had been dark for three nights when' } },
  { title: 'Complete a list', values: { prompt: 'Rivers of Europe, from west to east:\n1. Tagus\n2.' } },
  {
    title: 'Complete a function',
    values: { prompt: '# Returns the n-th Fibonacci number.\ndef fibonacci(n: int) -> int:\n' },
  },
];

/** Prompt starters of an empty playground. They are filled in but not sent. */
export function Examples() {
  const { draft } = usePlayground();
  const { change } = useActions();
  const examples = draft.mode === 'chat' ? CHATS : TEXTS;
  return (
    <div className="flex flex-col items-center px-2 py-8 text-center">
      <span className="mb-4 flex size-11 items-center justify-center rounded-full bg-accent-soft text-accent">
        <SquareTerminal className="size-5" aria-hidden="true" />
      </span>
      <h2 className="text-sm font-semibold">
        {draft.mode === 'chat' ? 'Start a conversation' : 'Complete a text'}
      </h2>
      <p className="mt-1 max-w-md text-sm text-ink-3">
        Playground requests count toward the limits and cost of your account.
      </p>
      <ul className="mt-5 grid w-full max-w-2xl gap-2 [grid-template-columns:repeat(auto-fit,minmax(12rem,1fr))]">
        {examples.map(({ title, values }) => (
          <li key={title}>
            <button
              type="button"
              onClick={() => change({ type: 'set', values })}
              className="h-full w-full rounded-lg border border-line bg-surface px-3.5 py-3 text-left transition-colors hover:bg-hover"
            >
              <span className="block text-sm font-medium">{title}</span>
              <span className="mt-0.5 line-clamp-2 text-xs leading-5 text-ink-3">
                {values.input ?? values.prompt}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
