import { Download, ShieldCheck, ShieldOff } from 'lucide-react';
import { useMemo, useState } from 'react';
import { encode } from 'uqr';
import { act } from '../../api/act.ts';
import type { ResponseOf } from '../../api/client.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { CodeField } from '../../components/code-field.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { EditDialog } from '../../components/edit-dialog.tsx';
import { saveFile } from '../../components/save-file.ts';
import { SecretDialog } from '../../components/secret-dialog.tsx';
import { Notice } from '../../components/states.tsx';
import { openOverlay } from '../../components/overlays.tsx';
import { useSession } from '../../state/session.tsx';
import { confirmWithPassword } from './confirm-with-password.tsx';

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
  const enable = () =>
    confirmWithPassword({
      title: 'Enable two-factor authentication',
      action: 'Continue',
      children: <p>You need an authenticator app on your phone or in a password manager.</p>,
      run: async (body) => {
        const begun = await act('beginTwoFactor', { body });
        void openOverlay((close) => <Enrollment begun={begun} onClose={close} />);
      },
    });
  return (
    <Button icon={<ShieldCheck />} onClick={enable}>
      Enable two-factor authentication
    </Button>
  );
}

function TurnedOn() {
  const renew = () =>
    confirmWithPassword({
      title: 'Create new recovery codes?',
      action: 'Create codes',
      children: <p>Your current recovery codes stop working.</p>,
      run: async (body) => {
        const ifLost =
          'No response arrived, and your current recovery codes may have stopped working. Create new codes again.';
        const { recovery_codes: codes } = await act('renewRecoveryCodes', { body }, { ifLost });
        showRecoveryCodes(codes);
      },
    });
  const end = () =>
    confirmWithPassword({
      title: 'Disable two-factor authentication?',
      action: 'Disable',
      danger: true,
      children: <p>You can then sign in without a code. Your recovery codes stop working.</p>,
      run: (body) => act('endTwoFactor', { body }, { done: 'Two-factor authentication disabled' }),
    });
  return (
    <div className="flex flex-wrap gap-2">
      <Button onClick={renew}>Create new recovery codes</Button>
      <Button icon={<ShieldOff />} onClick={end}>
        Disable
      </Button>
    </div>
  );
}

function Enrollment({ begun, onClose }: { begun: ResponseOf<'beginTwoFactor'>; onClose: () => void }) {
  const [code, setCode] = useState('');
  // Changes after a refused code, to clear the boxes.
  const [tries, setTries] = useState(0);
  return (
    <EditDialog
      title="Set up your authenticator app"
      hint="Scan the QR code with your app, or enter the secret."
      action="Enable"
      initial={{}}
      submit={async () => {
        try {
          await act(
            'confirmTwoFactor',
            { body: { code } },
            {
              done: 'Two-factor authentication enabled',
              ifLost:
                'No response arrived. Close this dialog: if two-factor authentication is on, create new recovery codes.',
            },
          );
        } catch (error) {
          setCode('');
          setTries(tries + 1);
          throw error;
        }
        showRecoveryCodes(begun.recovery_codes);
      }}
      onClose={onClose}
    >
      {() => (
        <>
          <Secret uri={begun.uri} />
          <CodeField
            key={tries}
            label="6-digit code from your app"
            value={code}
            onChange={setCode}
            focus={tries > 0}
          />
        </>
      )}
    </EditDialog>
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

function showRecoveryCodes(codes: readonly string[]): void {
  void openOverlay((close) => <RecoveryCodes codes={codes} onClose={close} />);
}

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
              icon={<Download />}
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
