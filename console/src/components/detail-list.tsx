import type { ReactNode } from 'react';
import { CopyButton } from './copy.tsx';

export interface Detail {
  label: string;
  value: ReactNode;
}

/** A list of labeled values; those that are false are left out. */
export function DetailList({ details }: { details: readonly (Detail | false)[] }) {
  return (
    <dl className="divide-y divide-line text-sm">
      {details
        .filter((detail) => detail !== false)
        .map(({ label, value }) => (
          <div key={label} className="flex items-baseline justify-between gap-6 py-2">
            <dt className="shrink-0 text-ink-3">{label}</dt>
            <dd className="min-w-0 text-right break-words text-ink tabular-nums">{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A value of an API, such as an ID or a path. */
export function Mono({ children }: { children: string }) {
  return <span className="font-mono text-xs break-all">{children}</span>;
}

/** An ID with a copy button. `what`: such as "key ID". */
export function CopiedId({ id, what }: { id: string; what: string }) {
  return (
    <span className="flex items-center justify-end gap-1">
      <code className="min-w-0 font-mono text-xs break-all">{id}</code>
      <span className="-my-1.5">
        <CopyButton text={id} what={what} />
      </span>
    </span>
  );
}
