import type { ResponseOf } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';

type Provider = ResponseOf<'getSession'>['sign_in']['providers'][number];

/** Sign-in buttons of the configured providers. Hidden if there are none. */
export function Providers({ providers, returnTo }: { providers: readonly Provider[]; returnTo: string }) {
  const signIn = useAction('signInWithProvider');
  if (providers.length === 0) return null;
  return (
    <div className="space-y-2">
      <p className="flex items-center gap-3 pb-2 text-xs text-ink-3">
        <span className="h-px flex-1 bg-line" />
        or
        <span className="h-px flex-1 bg-line" />
      </p>
      {providers.map(({ id, name }) => {
        const isChosen = signIn.variables?.body.provider === id;
        return (
          <Button
            key={id}
            className="w-full"
            // Stays busy until the browser has left for the provider.
            busy={isChosen && (signIn.isPending || signIn.isSuccess)}
            onClick={() =>
              signIn.mutate(
                { body: { provider: id, return_to: returnTo } },
                { onSuccess: ({ url }) => location.assign(url) },
              )
            }
          >
            Continue with {name}
          </Button>
        );
      })}
    </div>
  );
}
