import { ChevronRight } from 'lucide-react';

interface ReasoningProps {
  text: string;
  /** Initially expanded. */
  open?: boolean;
}

/** The reasoning before a completion. Hidden if empty. */
export function Reasoning({ text, open = false }: ReasoningProps) {
  if (text === '') return null;
  return (
    <details className="group/reasoning mb-2" open={open}>
      <summary className="inline-flex list-none items-center gap-1 rounded-md text-xs font-medium text-ink-2 hover:text-ink">
        <ChevronRight
          className="size-3.5 transition-transform group-open/reasoning:rotate-90"
          aria-hidden="true"
        />
        Reasoning
      </summary>
      <p className="mt-1.5 border-l-2 border-line pl-3 text-sm whitespace-pre-wrap text-ink-3">{text}</p>
    </details>
  );
}
