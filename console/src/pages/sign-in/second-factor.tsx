import { useState } from 'react';
import { act } from '../../api/act.ts';
import { readSession } from '../../api/queries.ts';
import { Button, TextButton } from '../../components/button.tsx';
import { CodeField } from '../../components/code-field.tsx';
import { TextField } from '../../components/field.tsx';
import { useFocus } from '../../components/focus.ts';
import { Form, FormError, useSubmit } from '../../components/form.tsx';
import { StandalonePage } from '../../components/standalone-page.tsx';

export function SecondFactor({ onStartOver }: { onStartOver: () => void }) {
  const [kind, setKind] = useState<'totp' | 'recovery'>('totp');
  const isTotp = kind === 'totp';
  return (
    <StandalonePage
      title="Two-factor authentication"
      hint={
        isTotp
          ? 'Enter the 6-digit code from your authenticator app.'
          : 'Enter one of your recovery codes. Each works once.'
      }
      below={<TextButton onClick={onStartOver}>Start over</TextButton>}
    >
      <CodeForm key={kind} kind={kind} onOther={() => setKind(isTotp ? 'recovery' : 'totp')} />
    </StandalonePage>
  );
}

function CodeForm({ kind, onOther }: { kind: 'totp' | 'recovery'; onOther: () => void }) {
  const [code, setCode] = useState('');
  // Changes after a wrong code, to clear the boxes.
  const [tries, setTries] = useState(0);
  const { busy, error, submit } = useSubmit();
  const recovery = useFocus<HTMLInputElement>();
  const signIn = async () => {
    try {
      await act('signInSecondFactor', { body: { code: code.trim(), kind } });
    } catch (refused) {
      if (kind === 'totp') {
        setCode('');
        setTries(tries + 1);
      }
      throw refused;
    }
    await readSession();
  };
  return (
    <Form error={error} onSubmit={() => void submit(signIn)}>
      {kind === 'totp' ? (
        <CodeField key={tries} label="Code" value={code} onChange={setCode} focus />
      ) : (
        <TextField
          ref={recovery}
          label="Recovery code"
          mono
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          required
          value={code}
          onChange={(event) => setCode(event.target.value)}
        />
      )}
      <FormError error={error} />
      <Button kind="primary" type="submit" className="w-full" busy={busy}>
        Sign in
      </Button>
      <Button kind="quiet" className="w-full" onClick={onOther}>
        {kind === 'totp' ? 'Use a recovery code' : 'Use authenticator app'}
      </Button>
    </Form>
  );
}
