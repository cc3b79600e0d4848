import { act } from '../../api/act.ts';
import type { ResponseOf } from '../../api/client.ts';
import { readSession } from '../../api/queries.ts';
import { Button, TextButton } from '../../components/button.tsx';
import { DraftForm } from '../../components/draft-form.tsx';
import { EmailField } from '../../components/field.tsx';
import { useFocus } from '../../components/focus.ts';
import { PasswordField } from '../../components/password-field.tsx';

/** The sign-in form. The updated session then determines the next step. */
export function PasswordForm({
  email,
  onForgot,
  onSecondFactor,
}: {
  /** Fixed email; default: the user enters one. */
  email?: string;
  /** Null: password reset is not available. */
  onForgot: (() => void) | null;
  /** Called if the password was correct and a code is required. */
  onSecondFactor?: () => void;
}) {
  const first = useFocus<HTMLInputElement>(email === undefined);
  return (
    <DraftForm
      action="Sign in"
      initial={{ email: email ?? '', password: '' }}
      submit={async (body) => {
        const { status } = await act('signIn', { body });
        if (status === 'second_factor') onSecondFactor?.();
        await readSession();
      }}
    >
      {(field) => (
        <>
          <EmailField ref={first} readOnly={email !== undefined} {...field('email')} />
          <PasswordField
            label="Password"
            aside={onForgot && <TextButton onClick={onForgot}>Forgot password?</TextButton>}
            {...field('password')}
          />
        </>
      )}
    </DraftForm>
  );
}

type Provider = ResponseOf<'getSession'>['sign_in']['providers'][number];

/** Sign-in buttons of the configured providers. Hidden if there are none. */
export function Providers({ providers, returnTo }: { providers: readonly Provider[]; returnTo: string }) {
  const signIn = async (provider: string) => {
    const { url } = await act('signInWithProvider', { body: { provider, return_to: returnTo } });
    location.assign(url);
    // Stays busy until the browser has left for the provider.
    await new Promise(() => {});
  };
  if (providers.length === 0) return null;
  return (
    <div className="space-y-2">
      <p className="flex items-center gap-3 pb-2 text-xs text-ink-3">
        <span className="h-px flex-1 bg-line" />
        or
        <span className="h-px flex-1 bg-line" />
      </p>
      {providers.map(({ id, name }) => (
        <Button key={id} className="w-full" onClick={() => signIn(id)}>
          Continue with {name}
        </Button>
      ))}
    </div>
  );
}
