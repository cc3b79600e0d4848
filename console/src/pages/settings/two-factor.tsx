import { Download, ShieldCheck, ShieldOff } from 'lucide-react';
import { useId, useMemo, useState } from 'react';
import { encode } from 'uqr';
import type { ResponseOf } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { CodeField } from '../../components/code-field.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import { Form, FormError } from '../../components/form.tsx';
import { saveFile } from '../../components/save-file.ts';
import { SecretDialog } from '../../components/secret-dialog.tsx';
import { Notice } from '../../components/states.tsx';
import { openOverlay } from '../../components/overlays.tsx';
import { useSession } from '../../state/session.tsx';
import { ConfirmWithPassword } from './confirm-with-password.tsx';

/** Enables and disables two-factor authentication, and creates recovery codes. */
export function TwoFactor() {
  const { user } = useSession();
  return (
    <Card
      title="Two-factor authentication"
      hint="Requires a code from your authenticator app at sign-in."
      actions={user.two_factor ? <Badge tone="good">On</Badge> : <Badge>Off</Badge>}
    >
      {user.two_factor ? <TurnedOn /> : <TurnedOff />}
    </Card>
  );
}

function TurnedOff() {
  const [asking, setAsking] = useState(false);
  const [begun, setBegun] = useState<ResponseOf<'beginTwoFactor'> | null>(null);
  const begin = useAction('beginTwoFactor', { quiet: true });
  return (
    <>
      <Button icon={<ShieldCheck className="size-4" aria-hidden="true" />} onClick={() => setAsking(true)}>
        Enable two-factor authentication
      </Button>
      <ConfirmWithPassword
        open={asking}
        onClose={() => setAsking(false)}
        title="Enable two-factor authentication"
        verb="Continue"
        action={begin}
        onDone={(answer) => {
          setAsking(false);
          setBegun(answer);
        }}
      >
        <p>You need an authenticator app on your phone or in a password manager.</p>
      </ConfirmWithPassword>
      {begun !== null && <Enrollment begun={begun} onClose={() => setBegun(null)} />}
    </>
  );
}

function TurnedOn() {
  const [asking, setAsking] = useState<'renew' | 'end' | null>(null);
  const renew = useAction('renewRecoveryCodes', {
    onSuccess: ({ recovery_codes: codes }) =>
      void openOverlay((close) => <RecoveryCodes codes={codes} onClose={close} />),
    quiet: true,
  });
  const end = useAction('endTwoFactor', {
    changes: ['getSession'],
    done: 'Two-factor authentication disabled',
    quiet: true,
  });
  return (
    <div className="flex flex-wrap gap-2">
      <Button onClick={() => setAsking('renew')}>Create new recovery codes</Button>
      <Button icon={<ShieldOff className="size-4" aria-hidden="true" />} onClick={() => setAsking('end')}>
        Disable
      </Button>
      <ConfirmWithPassword
        open={asking === 'renew'}
        onClose={() => setAsking(null)}
        title="Create new recovery codes?"
        verb="Create codes"
        action={renew}
        onDone={() => setAsking(null)}
      >
        <p>Your current recovery codes stop working.</p>
      </ConfirmWithPassword>
      <ConfirmWithPassword
        open={asking === 'end'}
        onClose={() => setAsking(null)}
        title="Disable two-factor authentication?"
        verb="Disable"
        danger
        action={end}
        onDone={() => setAsking(null)}
      >
        <p>You can then sign in without a code. Your recovery codes stop working.</p>
      </ConfirmWithPassword>
    </div>
  );
}

interface EnrollmentProps {
  begun: ResponseOf<'beginTwoFactor'>;
  onClose: () => void;
}

/** Enables two-factor authentication: shows the secret, verifies a code, then shows the recovery codes. */
function Enrollment({ begun, onClose }: EnrollmentProps) {
  const form = useId();
  const confirm = useAction('confirmTwoFactor', {
    changes: ['getSession'],
    done: 'Two-factor authentication enabled',
    onSuccess: () =>
      void openOverlay((close) => <RecoveryCodes codes={begun.recovery_codes} onClose={close} />),
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
    <Form
      id={id}
      error={confirm.error}
      onSubmit={() => {
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
    </Form>
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

/** Shows recovery codes, which cannot be shown again. */
function RecoveryCodes({ codes, onClose }: { codes: readonly string[]; onClose: () => void }) {
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
  saveFile('sluice-recovery-codes.txt', lines.join('\n'), 'text/plain');
}
