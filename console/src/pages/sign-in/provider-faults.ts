/** Messages for the error codes that the service adds to the sign-in URL after a failed provider sign-in. */
const FAULTS: ReadonlyMap<string, string> = new Map([
  ['cancelled', 'Sign-in was canceled. Try again, or sign in another way.'],
  ['not_invited', 'This email has not been invited. Ask an account owner or operator for an invitation.'],
  ['email_not_verified', 'Your email is not verified at the provider. Verify it there and try again.'],
  [
    'not_linked',
    'A user with this email exists but has not signed in with this provider before. Sign in with your password.',
  ],
]);

/** Returns the message of any code. */
export function faultOfProvider(code: string): string {
  return FAULTS.get(code) ?? 'Could not sign in with the provider. Try again, or sign in another way.';
}
