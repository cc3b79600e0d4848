/** What went wrong at a provider, by the code in the address that its answer leads back to. */
const FAULTS: Readonly<Record<string, string>> = {
  access_denied: 'The provider did not let you through, or you cancelled.',
};

/** The same in words; codes that are new to us are told as they are. */
export function faultOfProvider(code: string): string {
  return FAULTS[code] ?? `Signing in with the provider did not work (${code.slice(0, 60)}).`;
}
