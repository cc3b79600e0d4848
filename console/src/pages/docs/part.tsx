import type { ReactNode } from 'react';

/** A section of an operation. */
export function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className="mt-6">
      <h4 className="border-b border-line pb-1.5 text-xs font-semibold text-ink">{title}</h4>
      {children}
    </div>
  );
}
