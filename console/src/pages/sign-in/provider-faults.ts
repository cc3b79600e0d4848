/** What the service says went wrong at a provider, in the address that it sends the browser back to. */
const FAULTS: ReadonlyMap<string, string> = new Map([
  ['cancelled', 'The provider was not asked to let you in: the sign-in was cancelled there.'],
  ['not_invited', 'Nobody has invited this address yet. Ask somebody who is inside for an invitation.'],
  [
    'email_not_verified',
    'The provider does not vouch for your e-mail address. Confirm it there, and try again.',
  ],
  [
    'not_linked',
    'Somebody here has this address, and has not signed in with this provider before. Sign in with the password.',
  ],
]);

/** The same in words, whatever stands in the address. */
export function faultOfProvider(code: string): string {
  return FAULTS.get(code) ?? 'Signing in with the provider did not work. Try again, or sign in another way.';
}
