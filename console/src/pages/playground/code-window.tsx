import type { ReactNode } from 'react';
import { Dialog } from '../../components/dialog.tsx';
import { KEY_VARIABLE } from '../../snippets/samples.ts';

export function CodeWindow({ onClose, children }: { onClose: () => void; children: ReactNode }) {
  return (
    <Dialog
      open
      onClose={onClose}
      size="large"
      title="Code"
      hint={
        <>
          Code that sends the current request. Set the environment variable{' '}
          <code className="font-mono text-xs">{KEY_VARIABLE.slice(1)}</code> to your API key.
        </>
      }
    >
      {children}
    </Dialog>
  );
}
