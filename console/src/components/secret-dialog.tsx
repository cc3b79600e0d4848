import { useState, type ReactNode } from 'react';
import { useLeaveWarning } from '../state/leave-warning.ts';
import { Button } from './button.tsx';
import { Confirm } from './confirm.tsx';
import { Dialog } from './dialog.tsx';

interface SecretDialogProps {
  title: string;
  hint?: string;
  /** Name of the secret, such as "key". */
  what: string;
  /** What to do if the secret is lost. */
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
  const [asking, setAsking] = useState(false);
  useLeaveWarning(!copied);
  const noteCopied = () => setCopied(true);
  const close = () => (copied ? onClose() : setAsking(true));
  return (
    <Dialog
      open
      modal
      size={size}
      title={title}
      hint={hint}
      onClose={close}
      actions={
        <Button kind="primary" onClick={close}>
          Done
        </Button>
      }
    >
      {/* Also detects a manual copy of the selected text. */}
      <div onCopy={noteCopied}>{children(noteCopied)}</div>
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={`Close without copying the ${what}?`}
        action="Close"
        onConfirm={onClose}
      >
        <p>{ifLost}</p>
      </Confirm>
    </Dialog>
  );
}
