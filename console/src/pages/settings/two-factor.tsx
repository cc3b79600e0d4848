import { ShieldCheck, ShieldOff } from 'lucide-react';
import { useState } from 'react';
import type { Answer } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { useSession } from '../../shell/session.tsx';
import { ConfirmWithPassword } from './confirm-with-password.tsx';
import { Enrolment } from './enrolment.tsx';
import { RecoveryCodes } from './recovery-codes.tsx';

/** A second factor: on, off, and the codes for when the device is lost. */
export function TwoFactor() {
  const { person } = useSession();
  // Here, since it stays in sight once the factor counts: what follows are the recovery codes, which are shown once.
  const [begun, setBegun] = useState<Answer<'beginTwoFactor'> | null>(null);
  return (
    <Card
      title="Two factors"
      hint="Whoever knows your password still needs a code of your authenticator app to sign in."
      actions={person.two_factor ? <Badge tone="good">On</Badge> : <Badge>Off</Badge>}
    >
      {person.two_factor ? <TurnedOn /> : <TurnedOff onBegun={setBegun} />}
      <Enrolment begun={begun} onClose={() => setBegun(null)} />
    </Card>
  );
}

function TurnedOff({ onBegun }: { onBegun: (begun: Answer<'beginTwoFactor'>) => void }) {
  const [asking, setAsking] = useState(false);
  const begin = useAction('beginTwoFactor', { quiet: true });
  return (
    <>
      <Button icon={<ShieldCheck className="size-4" aria-hidden="true" />} onClick={() => setAsking(true)}>
        Turn on two factors
      </Button>
      <ConfirmWithPassword
        open={asking}
        onClose={() => setAsking(false)}
        title="Turn on two factors"
        verb="Go on"
        action={begin}
        onDone={(answer) => {
          setAsking(false);
          onBegun(answer);
        }}
      >
        <p>You need an authenticator app, on a phone or in a password manager.</p>
      </ConfirmWithPassword>
    </>
  );
}

function TurnedOn() {
  const [asking, setAsking] = useState<'renew' | 'end' | null>(null);
  const [codes, setCodes] = useState<readonly string[] | null>(null);
  const renew = useAction('renewRecoveryCodes', { quiet: true });
  const end = useAction('endTwoFactor', {
    changes: ['getSession'],
    done: 'Two factors are off: your password is enough to sign in.',
    quiet: true,
  });
  return (
    <div className="flex flex-wrap gap-2">
      <Button onClick={() => setAsking('renew')}>New recovery codes</Button>
      <Button icon={<ShieldOff className="size-4" aria-hidden="true" />} onClick={() => setAsking('end')}>
        Turn off
      </Button>
      <ConfirmWithPassword
        open={asking === 'renew'}
        onClose={() => setAsking(null)}
        title="Make new recovery codes?"
        verb="Make new codes"
        action={renew}
        onDone={({ recovery_codes: made }) => {
          setAsking(null);
          setCodes(made);
        }}
      >
        <p>The codes that you have kept open nothing any more, those not used yet included.</p>
      </ConfirmWithPassword>
      <ConfirmWithPassword
        open={asking === 'end'}
        onClose={() => setAsking(null)}
        title="Turn off two factors?"
        verb="Turn off"
        danger
        action={end}
        onDone={() => setAsking(null)}
      >
        <p>Your password alone will be enough to sign in. The recovery codes open nothing any more.</p>
      </ConfirmWithPassword>
      <Dialog
        open={codes !== null}
        onClose={() => setCodes(null)}
        modal
        title="Your new recovery codes"
        hint="Each lets you in once, in place of a code of the app."
        actions={
          <Button kind="primary" onClick={() => setCodes(null)}>
            I have kept them
          </Button>
        }
      >
        {codes !== null && <RecoveryCodes codes={codes} />}
      </Dialog>
    </div>
  );
}
