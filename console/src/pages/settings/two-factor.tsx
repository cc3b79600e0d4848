import { ShieldCheck, ShieldOff } from 'lucide-react';
import { useState } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { useSession } from '../../state/session.tsx';
import { useShowSecret } from '../../state/secrets.tsx';
import { ConfirmWithPassword } from './confirm-with-password.tsx';
import { Enrollment } from './enrollment.tsx';
import { RecoveryCodes } from './recovery-codes.tsx';

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
  const show = useShowSecret();
  const renew = useAction('renewRecoveryCodes', {
    onSuccess: ({ recovery_codes: codes }) =>
      show((close) => <RecoveryCodes codes={codes} onClose={close} />),
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
