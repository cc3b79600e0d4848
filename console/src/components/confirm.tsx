import { AlertDialog } from '@base-ui/react/alert-dialog';
import { useEffect, type ReactNode } from 'react';
import { Button } from './button.tsx';
import { openOverlay, type Overlay } from './overlays.tsx';

interface Question {
  title: string;
  /** Consequences of the action. */
  children: ReactNode;
  /** The verb on the button, never "OK". */
  action: string;
  danger?: boolean;
  /** The action. The question stays open while it runs and after it fails, with the error as a toast. */
  run?: () => Promise<unknown>;
}

/**
 * Asks for confirmation of an action. Resolves to true if it was confirmed and, with `run`, has succeeded. An action
 * continues if the user closes the question while it runs.
 */
export async function confirm(question: Question): Promise<boolean> {
  const overlay: Overlay<boolean> = (close) => <Confirm {...question} close={close} />;
  return (await openOverlay(overlay, { endsWithHost: true })) ?? false;
}

function Confirm({
  title,
  children,
  action,
  danger = true,
  run,
  close,
}: Question & { close: (confirmed: boolean) => void }) {
  useEffect(() => {
    // Back leaves what the question is about.
    const withdraw = () => close(false);
    addEventListener('popstate', withdraw);
    return () => removeEventListener('popstate', withdraw);
  });
  const onConfirm = async () => {
    await run?.();
    close(true);
  };
  return (
    <AlertDialog.Root open onOpenChange={(isOpen) => !isOpen && close(false)}>
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
            <Button onClick={() => close(false)}>Cancel</Button>
            <Button kind={danger ? 'danger' : 'primary'} onClick={onConfirm}>
              {action}
            </Button>
          </footer>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
