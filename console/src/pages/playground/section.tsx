import { ChevronRight } from 'lucide-react';
import { useId, useState, type ReactNode } from 'react';
import { usePlayground } from './state.tsx';

interface SectionProps {
  title: string;
  /** Summary of the settings, next to the title; null: nothing is set. */
  note: string | null;
  /** Whether the section contains this parameter. Invalid input for such a parameter keeps the section open. */
  contains: (parameter: string) => boolean;
  children: ReactNode;
}

/** A collapsible section of parameters. */
export function Section({ title, note, contains, children }: SectionProps) {
  const { errors } = usePlayground();
  const content = useId();
  const [wanted, setWanted] = useState(false);
  const open = wanted || Object.keys(errors).some(contains);
  return (
    <section className="border-t border-line last-of-type:border-b">
      <h2>
        <button
          type="button"
          aria-expanded={open}
          aria-controls={content}
          onClick={() => setWanted(!open)}
          className="flex h-11 w-full items-center gap-2 text-left text-sm font-medium"
        >
          <ChevronRight
            className={`size-4 shrink-0 text-ink-3 transition-transform ${open ? 'rotate-90' : ''}`}
            aria-hidden="true"
          />
          {title}
          {note !== null && <span className="ml-auto text-xs font-normal text-ink-3">{note}</span>}
        </button>
      </h2>
      <div id={content} hidden={!open} className="space-y-6 pt-2 pb-6">
        {children}
      </div>
    </section>
  );
}
