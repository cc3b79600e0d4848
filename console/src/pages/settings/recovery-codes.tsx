import { Download } from 'lucide-react';
import { Button } from '../../components/button.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { SecretDialog } from '../../components/secret-dialog.tsx';
import { Notice } from '../../components/states.tsx';

/** Shows recovery codes, which cannot be shown again. */
export function RecoveryCodes({ codes, onClose }: { codes: readonly string[]; onClose: () => void }) {
  const text = codes.join('\n');
  return (
    <SecretDialog
      title="Save your recovery codes"
      hint="If you lose your device, sign in with one of these codes instead of a code from your app. Each works once."
      what="codes"
      ifLost="The codes cannot be shown again. If you lose them, create new ones in the settings."
      onClose={onClose}
    >
      {(onCopied) => (
        <div className="space-y-4">
          <ul
            aria-label="Recovery codes"
            className="grid grid-cols-2 gap-x-6 gap-y-1.5 rounded-lg bg-sunken p-4 font-mono text-xs"
          >
            {codes.map((code) => (
              <li key={code} className="select-all">
                {code}
              </li>
            ))}
          </ul>
          <div className="flex flex-wrap gap-2">
            <CopyButton text={text} what="codes" labeled onCopied={onCopied} />
            <Button
              icon={<Download className="size-4" aria-hidden="true" />}
              onClick={() => {
                download(text);
                onCopied();
              }}
            >
              Download
            </Button>
          </div>
          <Notice tone="warn">These codes are shown only once. Do not store them only on this device.</Notice>
        </div>
      )}
    </SecretDialog>
  );
}

function download(text: string): void {
  const lines = [`Recovery codes for ${location.host}. Each works once.`, '', text, ''];
  const url = URL.createObjectURL(new Blob([lines.join('\n')], { type: 'text/plain' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = 'sluice-recovery-codes.txt';
  link.click();
  URL.revokeObjectURL(url);
}
