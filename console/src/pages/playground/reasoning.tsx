import { createContext, use } from 'react';
import { Disclosure } from '../../components/disclosure.tsx';
import { counted } from '../../format/number.ts';

interface ReasoningProps {
  text: string;
  /** Null: not known yet, or counted for several choices together. */
  tokenCount: number | null;
}

/**
 * Whether the reasoning of a turn is open. The turn has this state, because the component of the response is replaced
 * when the response is complete.
 */
export const ReasoningOpen = createContext<[open: boolean, setOpen: (open: boolean) => void] | null>(null);

/** The reasoning before a response, collapsed. Hidden if empty. */
export function Reasoning({ text, tokenCount }: ReasoningProps) {
  const [open, setOpen] = use(ReasoningOpen) ?? [];
  if (text === '') return null;
  return (
    <Disclosure
      className="mb-2"
      {...(open !== undefined && { open })}
      {...(setOpen && { onToggle: setOpen })}
      label={
        <span>
          Reasoning
          {tokenCount !== null && (
            <span className="font-normal text-ink-3 tabular-nums"> · {counted(tokenCount, 'token')}</span>
          )}
        </span>
      }
    >
      <p className="mt-1.5 border-l-2 border-line pl-3 text-sm break-words whitespace-pre-wrap text-ink-2">
        {text}
      </p>
    </Disclosure>
  );
}
