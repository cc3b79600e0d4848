import { useId, useMemo, useState } from 'react';
import { encode } from 'uqr';
import type { ResponseOf } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { CodeField } from '../../components/code-field.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import { FormError } from '../../components/form-error.tsx';
import { useShowSecret } from '../../state/secrets.tsx';
import { RecoveryCodes } from './recovery-codes.tsx';

interface EnrollmentProps {
  begun: ResponseOf<'beginTwoFactor'>;
  onClose: () => void;
}

/** Enables two-factor authentication: shows the secret, verifies a code, then shows the recovery codes. */
export function Enrollment({ begun, onClose }: EnrollmentProps) {
  const form = useId();
  const show = useShowSecret();
  const confirm = useAction('confirmTwoFactor', {
    changes: ['getSession'],
    done: 'Two-factor authentication enabled',
    onSuccess: () => show((close) => <RecoveryCodes codes={begun.recovery_codes} onClose={close} />),
    quiet: true,
  });
  return (
    <Dialog
      open
      onClose={onClose}
      modal
      title="Set up your authenticator app"
      hint="Scan the QR code with your app, or enter the secret."
      actions={<FormActions form={form} action="Enable" busy={confirm.isPending} onCancel={onClose} />}
    >
      <div className="space-y-5">
        <Secret uri={begun.uri} />
        <ConfirmForm id={form} confirm={confirm} onConfirmed={onClose} />
      </div>
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

/** Quiet zone in modules, which cameras need to detect the code. */
const BORDER = 4;

/** A QR code. Dark on light in both color schemes, because not all apps read inverted codes. */
function QrCode({ text, label }: { text: string; label: string }) {
  const { path, size } = useMemo(() => drawn(text), [text]);
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${size} ${size}`}
      shapeRendering="crispEdges"
      className="size-44 shrink-0 rounded-lg border border-line"
    >
      <rect width={size} height={size} fill="white" />
      <path d={path} fill="black" />
    </svg>
  );
}

/** Returns an SVG path with one rectangle per run of dark modules. */
function drawn(text: string): { path: string; size: number } {
  const { data, size } = encode(text, { ecc: 'M', border: BORDER });
  const path = data.flatMap((row, y) =>
    row.map((dark, x) => {
      if (!dark || row[x - 1]) return '';
      let end = x + 1;
      while (row[end]) end++;
      return `M${x} ${y}h${end - x}v1H${x}z`;
    }),
  );
  return { path: path.join(''), size };
}
