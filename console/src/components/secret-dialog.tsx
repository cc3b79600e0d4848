import { TriangleAlert } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { useLeaveWarning } from '../state/leave-warning.ts';
import { confirm } from './confirm.tsx';
import { Button } from './button.tsx';
import { CopyButton } from './copy.tsx';
import { Dialog } from './dialog.tsx';

interface SecretDialogProps {
  title: string;
  hint?: string;
  /** Name of the secret, such as "key". */
  what: string;
  ifLost: string;
  size?: 'small' | 'medium';
  onClose: () => void;
  /** The secret. `onCopied` is to be called when it was copied or saved. */
  children: (onCopied: () => void) => ReactNode;
}

/** A dialog with a secret that cannot be shown again. Closing it or the page before the secret was copied needs confirmation. */
export function SecretDialog(props: SecretDialogProps) {
  const { title, hint, what, ifLost, size = 'small', onClose, children } = props;
  const [copied, setCopied] = useState(false);
  useLeaveWarning(!copied);
  const noteCopied = () => setCopied(true);
  const close = async () => {
    const question = {
      title: `Close without copying the ${what}?`,
      action: 'Close',
      children: <p>{ifLost}</p>,
    };
    if (copied || (await confirm(question))) onClose();
  };
  return (
    <Dialog
      open
      modal
      size={size}
      title={title}
      hint={hint}
      onClose={() => void close()}
      actions={
        <Button kind="primary" onClick={() => void close()}>
          Done
        </Button>
      }
    >
      {/* Also detects a manual copy of the selected text. */}
      <div onCopy={noteCopied}>{children(noteCopied)}</div>
    </Dialog>
  );
}

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
  onCopied?: () => void;
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
        <TriangleAlert className="mt-0.5 size-4 shrink-0 text-warn" />
        <span>{children}</span>
      </p>
    </div>
  );
}
