import { ChevronRight } from 'lucide-react';
import type { ReactNode } from 'react';

/** A navigation beside the content; collapsed above it on narrow windows. */
export function NavDisclosure({
  label,
  open = false,
  children,
}: {
  label: string;
  /** Opens it on narrow windows. */
  open?: boolean;
  children: ReactNode;
}) {
  return (
    <>
      <div className="hidden xl:block">{children}</div>
      <details open={open} className="group rounded-lg border border-line bg-surface xl:hidden">
        <summary className="flex h-9 list-none items-center gap-2 px-3 text-xs font-medium [&::-webkit-details-marker]:hidden">
          <ChevronRight className="size-3.5 text-ink-3 transition-transform group-open:rotate-90" />
          {label}
        </summary>
        <div className="border-t border-line p-2">{children}</div>
      </details>
    </>
  );
}
