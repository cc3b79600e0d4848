import { AlertDialog } from '@base-ui/react/alert-dialog';
import type { ReactNode } from 'react';
import { Button } from './button.tsx';

interface ConfirmProps {
  open: boolean;
  onClose: () => void;
  /** A question. */
  title: string;
  /** Consequences of the action. */
  children: ReactNode;
  /** The verb on the button, never "OK". */
  action: string;
  danger?: boolean;
  /** The request that the action sends. If the question is closed before the response, the request goes on without it. */
  request?: { isPending: boolean; reset: () => void };
  onConfirm: () => void;
}

/** Asks for confirmation of an action. */
export function Confirm({
  open,
  onClose,
  title,
  children,
  action,
  danger = true,
  request,
  onConfirm,
}: ConfirmProps) {
  const close = () => {
    // The response must not close another question, which may be open by then.
    request?.reset();
    onClose();
  };
  return (
    <AlertDialog.Root open={open} onOpenChange={(isOpen) => !isOpen && close()}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="fixed inset-0 z-40 bg-backdrop" />
        <AlertDialog.Popup className="fixed inset-x-4 top-1/2 z-40 mx-auto max-w-md -translate-y-1/2 rounded-2xl border border-line bg-raised p-5 shadow-popup outline-none sm:p-6">
          <AlertDialog.Title className="text-base font-semibold tracking-tight break-words">
            {title}
          </AlertDialog.Title>
          <AlertDialog.Description render={<div />} className="mt-2 space-y-2 text-sm text-ink-2">
            {children}
          </AlertDialog.Description>
          <footer className="mt-6 flex flex-wrap justify-end gap-2">
            <Button onClick={close}>Cancel</Button>
            <Button
              kind={danger ? 'danger' : 'primary'}
              busy={request?.isPending ?? false}
              onClick={onConfirm}
            >
              {action}
            </Button>
          </footer>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
