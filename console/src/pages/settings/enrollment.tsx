import { useId, useState } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { CodeField } from '../../components/code-field.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import { FormError } from '../../components/form-error.tsx';
import { QrCode } from './qr-code.tsx';
import { RecoveryCodes } from './recovery-codes.tsx';

interface EnrollmentProps {
  /** Null: closed. */
  begun: ResponseOf<'beginTwoFactor'> | null;
  onClose: () => void;
}

/** Enables two-factor authentication: shows the secret, verifies a code, shows recovery codes. */
export function Enrollment({ begun, onClose }: EnrollmentProps) {
  const [confirmed, setConfirmed] = useState(false);
  const form = useId();
  const confirm = useAction('confirmTwoFactor', { changes: ['getSession'], quiet: true });
  const close = () => {
    onClose();
    setConfirmed(false);
    confirm.reset();
  };
  return (
    <Dialog
      open={begun !== null}
      onClose={close}
      modal
      title={confirmed ? 'Save your recovery codes' : 'Set up your authenticator app'}
      hint={
        confirmed
          ? 'Two-factor authentication is enabled. If you lose your device, sign in with one of these codes.'
          : 'Scan the QR code with your app, or enter the secret.'
      }
      actions={
        confirmed ? (
          <Button kind="primary" onClick={close}>
            I saved the codes
          </Button>
        ) : (
          <FormActions form={form} action="Enable" busy={confirm.isPending} onCancel={close} />
        )
      }
    >
      {begun !== null &&
        (confirmed ? (
          <RecoveryCodes codes={begun.recovery_codes} />
        ) : (
          <div className="space-y-5">
            <Secret uri={begun.uri} />
            <ConfirmForm id={form} confirm={confirm} onConfirmed={() => setConfirmed(true)} />
          </div>
        ))}
    </Dialog>
  );
}

function Secret({ uri }: { uri: string }) {
  const secret = new URL(uri).searchParams.get('secret') ?? '';
  return (
    <div className="flex flex-col items-center gap-4 sm:flex-row sm:items-start">
      <QrCode text={uri} label="QR code for your authenticator app" />
      <div className="min-w-0 text-sm">
        <p className="text-xs text-ink-3">Secret for time-based 6-digit codes</p>
        <p className="mt-1 flex items-start gap-2">
          <code className="min-w-0 py-1 font-mono text-xs leading-5 break-all select-all">
            {secret.match(/.{1,4}/g)?.join(' ')}
          </code>
          <CopyButton text={secret} what="secret" />
        </p>
      </div>
    </div>
  );
}

interface ConfirmFormProps {
  id: string;
  confirm: ReturnType<typeof useAction<'confirmTwoFactor'>>;
  onConfirmed: () => void;
}

function ConfirmForm({ id, confirm, onConfirmed }: ConfirmFormProps) {
  const [code, setCode] = useState('');
  // Changes after a wrong code, to clear the boxes.
  const [tries, setTries] = useState(0);
  return (
    <form
      id={id}
      className="space-y-4"
      onSubmit={(event) => {
        event.preventDefault();
        if (confirm.isPending) return;
        const onError = () => {
          setCode('');
          setTries(tries + 1);
        };
        confirm.mutate({ body: { code } }, { onSuccess: onConfirmed, onError });
      }}
    >
      <CodeField
        key={tries}
        label="6-digit code from your app"
        value={code}
        onChange={setCode}
        focus={tries > 0}
      />
      <FormError error={confirm.error} />
    </form>
  );
}
