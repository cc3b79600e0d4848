import type { ReactNode } from 'react';

/** A section of an operation. */
export function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h2 className="border-b border-line pb-1.5 text-sm font-semibold text-ink">{title}</h2>
      {children}
    </section>
  );
}
