import { SquareTerminal } from 'lucide-react';
import { usePlayground } from './context.ts';
import { summaryOf } from './model-text.ts';

/** A column without a conversation or completion: names its model. */
export function EmptyColumn({ model }: { model: string }) {
  const { draft, models } = usePlayground();
  const found = models.find(({ id }) => id === model);
  return (
    <div className="flex flex-col items-center px-2 py-8 text-center">
      <span className="mb-4 flex size-11 items-center justify-center rounded-full bg-accent-soft text-accent">
        <SquareTerminal className="size-5" aria-hidden="true" />
      </span>
      <h2 className="text-sm font-semibold break-all">
        {found === undefined
          ? 'No models configured'
          : `${draft.mode === 'chat' ? 'Chat with' : 'Complete a text with'} ${model.split('/').at(-1)}`}
      </h2>
      <p className="mt-1 max-w-md text-sm text-ink-3">
        {found === undefined ? 'An operator can add models on the Models page.' : `${summaryOf(found)}.`}
      </p>
      <p className="mt-1 max-w-md text-sm text-ink-3">
        Requests are charged to your account and count toward its limits.
      </p>
    </div>
  );
}
