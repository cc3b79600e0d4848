import { ChevronRight } from 'lucide-react';
import { useState, type ReactNode } from 'react';

interface DisclosureProps {
  label: ReactNode;
  /** With `onToggle`, whether it is open; otherwise it starts closed. */
  open?: boolean;
  onToggle?: (open: boolean) => void;
  framed?: boolean;
  className?: string;
  children: ReactNode;
}

interface LazyDisclosureProps extends Pick<DisclosureProps, 'label' | 'className'> {
  children: () => ReactNode;
}

const FRAMED =
  'rounded-lg border border-line [&>summary]:flex [&>summary]:h-10 [&>summary]:gap-2 [&>summary]:px-3 [&>summary]:text-sm [&>summary]:hover:bg-hover';

/** Content that is shown on request, below a small label. */
export function Disclosure({
  label,
  open,
  onToggle,
  framed = false,
  className = '',
  children,
}: DisclosureProps) {
  return (
    <details
      open={open}
      onToggle={(event) => onToggle?.(event.currentTarget.open)}
      className={`group/disclosure ${framed ? FRAMED : ''} ${className}`}
    >
      <summary className="inline-flex list-none items-center gap-1 rounded-md text-xs font-medium text-ink-2 hover:text-ink [&::-webkit-details-marker]:hidden">
        <ChevronRight className="size-3.5 shrink-0 transition-transform group-open/disclosure:rotate-90" />
        {label}
      </summary>
      {children}
    </details>
  );
}

/** Content below a small label that is rendered only while it is shown, because there may be much of it. */
export function LazyDisclosure({ label, className, children }: LazyDisclosureProps) {
  const [open, setOpen] = useState(false);
  return (
    <Disclosure label={label} className={className ?? ''} onToggle={setOpen}>
      {open && children()}
    </Disclosure>
  );
}
