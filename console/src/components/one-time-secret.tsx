import { TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { CopyButton } from './copy.tsx';

/** Shows a secret that cannot be shown again, with a copy button and a warning. */
export function OneTimeSecret({
  text,
  what,
  label,
  onCopied,
  children,
}: {
  text: string;
  /** Name of the copied value, such as "link". */
  what: string;
  /** Accessible name of the text. */
  label: string;
  /** Called after the text was copied. */
  onCopied?: () => void;
  /** The warning. */
  children: ReactNode;
}) {
  return (
    <div className="overflow-hidden rounded-xl border border-line">
      <div className="flex flex-wrap items-center gap-3 bg-sunken p-3 sm:flex-nowrap">
        <code
          role="region"
          aria-label={label}
          tabIndex={0}
          className="min-w-0 flex-1 basis-full rounded-md px-1 font-mono text-xs leading-5 break-all select-all sm:basis-auto"
        >
          {text}
        </code>
        <CopyButton text={text} what={what} labeled onCopied={onCopied} />
      </div>
      <p className="flex items-start gap-2.5 border-t border-line bg-warn-soft px-4 py-3 text-xs leading-5 text-ink-2">
        <TriangleAlert className="mt-0.5 size-4 shrink-0 text-warn" aria-hidden="true" />
        <span>{children}</span>
      </p>
    </div>
  );
}
