import { Check } from 'lucide-react';
import { useRead } from '../../api/queries.ts';
import { ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';

/** The first steps of an account without requests. `accountId`: null for all accounts. */
export function GetStarted({ accountId }: { accountId: string | null }) {
  const keys = useRead('listKeys', {
    query: { ...(accountId !== null && { account_id: accountId }), limit: 1 },
  });
  const steps = [
    {
      title: 'Create an API key',
      hint: 'Your apps send it with every request.',
      done: (keys.data?.data.length ?? 0) > 0,
      to: '/keys?create=1',
      action: 'Create key',
    },
    {
      title: 'Send a request',
      hint: 'Try a model, then copy the request as code.',
      done: false,
      to: '/playground',
      action: 'Open playground',
    },
    {
      title: 'Connect your app',
      hint: 'Any OpenAI client works with your key and base URL.',
      done: false,
      to: '/docs/guide/clients',
      action: 'Read the guide',
    },
  ];
  return (
    <Card title="Get started">
      <ol className="grid gap-4 md:grid-cols-3">
        {steps.map(({ title, hint, done, to, action }, index) => (
          <li key={title} className="flex gap-3 text-sm">
            <span
              className={`mt-0.5 flex size-5 shrink-0 items-center justify-center rounded-full text-2xs font-semibold ${
                done ? 'bg-accent text-accent-ink' : 'border border-line-strong text-ink-3'
              }`}
            >
              {done ? (
                <>
                  <Check className="size-3" strokeWidth={3} aria-hidden="true" />
                  <span className="sr-only">Done:</span>
                </>
              ) : (
                index + 1
              )}
            </span>
            <div className="min-w-0">
              <p className="font-medium">{title}</p>
              <p className="mt-0.5 mb-2 text-xs leading-5 text-ink-3">{hint}</p>
              <ButtonLink size="small" to={to}>
                {action}
              </ButtonLink>
            </div>
          </li>
        ))}
      </ol>
    </Card>
  );
}
