import { ChevronDown } from 'lucide-react';
import type { ReactNode } from 'react';

interface FoldButtonProps {
  isExpanded: boolean;
  onClick: () => void;
  children: ReactNode;
}

/** Expands or folds a row. */
export function FoldButton({ isExpanded, onClick, children }: FoldButtonProps) {
  return (
    <button
      type="button"
      aria-expanded={isExpanded}
      className="inline-flex items-center gap-1 text-left hover:underline"
      onClick={onClick}
    >
      {children}
      <ChevronDown
        className={`size-3.5 shrink-0 text-ink-3 transition-transform ${isExpanded ? 'rotate-180' : ''}`}
      />
    </button>
  );
}
