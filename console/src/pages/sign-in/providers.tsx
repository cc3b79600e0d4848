import { act } from '../../api/act.ts';
import type { ResponseOf } from '../../api/client.ts';
import { Button } from '../../components/button.tsx';

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
