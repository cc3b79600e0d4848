import type { ApiError } from '../api/client.ts';
import { Button, ButtonLink } from '../components/button.tsx';
import { Notice } from '../components/states.tsx';
import { clock } from '../format/time.ts';
import type { Connection } from '../state/connection.tsx';

interface ConnectionBannerProps {
  connection: Connection;
  /** Null: the service responded. */
  error: ApiError | null;
  /** Time of the last response, Unix milliseconds. */
  lastAtMs: number;
  retry: () => void;
}

/** Says that the service does not respond or that the session has ended; nothing otherwise. */
export function ConnectionBanner({ connection, error, lastAtMs, retry }: ConnectionBannerProps) {
  if (connection === 'up') return null;
  const to = `/sign-in?to=${encodeURIComponent(location.pathname + location.search)}`;
  return (
    <div className="sticky top-14 z-20 bg-page px-4 pt-4 pb-3 sm:px-6 lg:top-0 lg:px-8">
      {connection === 'lost' ? (
        <Notice
          tone="bad"
          title="The service does not respond"
          action={
            <Button size="small" onClick={retry}>
              Try again
            </Button>
          }
        >
          {error !== null && error.status !== 0 && `${error.message} `}
          The data on this page is from {clock(lastAtMs)} or earlier.
        </Notice>
      ) : (
        <Notice
          tone="bad"
          title="Your session has ended"
          action={
            <ButtonLink size="small" to={to}>
              Sign in
            </ButtonLink>
          }
        >
          Sign in again to continue. To keep what you entered on this page, sign in in another tab.
        </Notice>
      )}
    </div>
  );
}
