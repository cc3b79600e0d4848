import { ChevronRight } from 'lucide-react';
import type { ReactNode } from 'react';

interface DisclosureProps {
  label: ReactNode;
  /** With `onToggle`, whether it is open; otherwise it starts closed. */
  open?: boolean;
  onToggle?: (open: boolean) => void;
  className?: string;
  children: ReactNode;
}

/** Content that is shown on request, below a small label. */
export function Disclosure({ label, open, onToggle, className = '', children }: DisclosureProps) {
  return (
    <details
      open={open}
      onToggle={(event) => onToggle?.(event.currentTarget.open)}
      className={`group/disclosure ${className}`}
    >
      <summary className="inline-flex list-none items-center gap-1 rounded-md text-xs font-medium text-ink-2 hover:text-ink">
        <ChevronRight className="size-3.5 transition-transform group-open/disclosure:rotate-90" />
        {label}
      </summary>
      {children}
    </details>
  );
}
