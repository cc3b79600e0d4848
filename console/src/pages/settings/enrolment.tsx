import { useId, useState } from 'react';
import type { Answer } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { CodeField } from '../../components/code-field.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { FormFault } from '../../components/form-fault.tsx';
import { QrCode } from './qr-code.tsx';
import { RecoveryCodes } from './recovery-codes.tsx';

interface EnrolmentProps {
  /** Null: none is under way. */
  begun: Answer<'beginTwoFactor'> | null;
  onClose: () => void;
}

/** From a new second factor to one that counts: into the app, a code of it back, recovery codes kept. */
export function Enrolment({ begun, onClose }: EnrolmentProps) {
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
      title={confirmed ? 'Keep your recovery codes' : 'Add it to your authenticator app'}
      hint={
        confirmed
          ? 'Two factors are on. If your device is lost, each of these lets you in once.'
          : 'Scan the picture with the app, or type the secret in.'
      }
      actions={
        confirmed ? (
          <Button kind="primary" onClick={close}>
            I have kept them
          </Button>
        ) : (
          <>
            <Button onClick={close}>Cancel</Button>
            <Button kind="primary" type="submit" form={form} busy={confirm.isPending}>
              Turn on
            </Button>
          </>
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
      <QrCode text={uri} label="QR code of the secret" />
      <div className="min-w-0 text-sm">
        <p className="text-xs text-ink-3">Or the secret as text, time-based, six digits:</p>
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
  // A wrong code is of no more use: the boxes are emptied, and wait for the next one.
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
        label="The six digits that the app shows now"
        value={code}
        onChange={setCode}
        focus={tries > 0}
      />
      <FormFault error={confirm.error} />
    </form>
  );
}
