import type { ReactNode } from 'react';

/** A list of labeled values. */
export function DetailList({ details }: { details: readonly { label: string; value: ReactNode }[] }) {
  return (
    <dl className="divide-y divide-line text-sm">
      {details.map(({ label, value }) => (
        <div key={label} className="flex items-baseline justify-between gap-6 py-2">
          <dt className="shrink-0 text-ink-3">{label}</dt>
          <dd className="min-w-0 text-right break-words text-ink tabular-nums">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
