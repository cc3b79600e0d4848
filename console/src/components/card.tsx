import type { ReactNode } from 'react';
import { classNames } from './class-names.ts';

interface CardProps {
  title?: ReactNode;
  hint?: ReactNode;
  /** Next to the title, such as a button. */
  actions?: ReactNode;
  /** Removes the padding, for tables. */
  flush?: boolean;
  className?: string;
  children: ReactNode;
}

export function Card({ title, hint, actions, flush = false, className, children }: CardProps) {
  return (
    <section className={classNames('min-w-0 rounded-xl border border-line bg-surface', className)}>
      {(title ?? actions) !== undefined && (
        <header className="flex flex-wrap items-start justify-between gap-3 px-4 pt-4 sm:px-5">
          <div className={classNames('min-w-0 grow', hint !== undefined && 'basis-52')}>
            <h2 className="text-sm font-semibold text-ink">{title}</h2>
            {hint !== undefined && <p className="mt-0.5 text-xs leading-5 text-ink-3">{hint}</p>}
          </div>
          {actions}
        </header>
      )}
      <div className={flush ? classNames(title !== undefined && 'mt-3') : 'p-4 sm:p-5'}>{children}</div>
    </section>
  );
}

export function Figure({
  label,
  value,
  unit,
  note,
}: {
  label: string;
  value: ReactNode;
  unit?: string;
  note?: ReactNode;
}) {
  return (
    <div className="min-w-0">
      <dt className="truncate text-xs text-ink-3">{label}</dt>
      <dd className="mt-1 flex items-baseline gap-1 text-xl font-semibold tracking-tight tabular-nums">
        <span className="truncate">{value}</span>
        {unit !== undefined && <span className="text-xs font-normal text-ink-3">{unit}</span>}
      </dd>
      {note !== undefined && <dd className="mt-0.5 text-xs text-ink-3">{note}</dd>}
    </div>
  );
}
