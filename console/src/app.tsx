import { Compass } from 'lucide-react';
import { Suspense, useEffect, useState, type ReactNode } from 'react';
import { Redirect, Route, Switch, useLocation, useSearch } from 'wouter';
import { useRead } from './api/queries.ts';
import { Button } from './components/button.tsx';
import { OverlayHost } from './components/overlays.tsx';
import { Page } from './components/page.tsx';
import { Spinner } from './components/spinner.tsx';
import { EmptyState, Loaded } from './components/states.tsx';
import { PAGES } from './pages.tsx';
import { forgetFirstKey } from './pages/setup/first-key.ts';
import { ConnectionBanner } from './shell/connection-banner.tsx';
import { ErrorBoundary } from './shell/error-boundary.tsx';
import { Shell } from './shell/shell.tsx';
import { ConnectionProvider } from './state/connection.tsx';
import { isDocumentOf, isSignedIn, SessionProvider, type SignedIn } from './state/session.tsx';
import { deleteOfOthers } from './state/user-storage.ts';

/** Routes to the page of the current path. */
export function App() {
  const [path] = useLocation();
  return (
    <ErrorBoundary path={path}>
      <Suspense fallback={<Waiting />}>
        <Switch>
          {PAGES.filter(({ access }) => access === 'open').map(({ path, page }) => (
            <Route key={path} path={path} component={page} />
          ))}
          <Route>
            <SignedInPages />
          </Route>
        </Switch>
      </Suspense>
    </ErrorBoundary>
  );
}

/** Refetch interval of the session, which also shows whether the service responds. */
const SESSION_EVERY_MS = 10_000;

/**
 * Pages for signed-in users. Others are sent to the sign-in page and return afterwards. Pages that are open when the
 * session ends or the service stops responding stay open, to keep their input.
 */
function SignedInPages() {
  const read = useRead('getSession', undefined, { everyMs: SESSION_EVERY_MS });
  const [shown, setShown] = useState<SignedIn | null>(null);
  const [path] = useLocation();
  const search = useSearch();
  const session = read.data;
  if (session !== undefined && isSignedIn(session) && session !== shown) {
    if (!isDocumentOf(session.user.id)) return <Reload />;
    setShown(session);
  }
  if (shown === null) {
    if (session === undefined) {
      return (
        <div className="flex min-h-dvh items-center justify-center">
          <Loaded query={read} loading={<Waiting />}>
            {() => null}
          </Loaded>
        </div>
      );
    }
    const wanted = search === '' ? path : `${path}?${search}`;
    return <Redirect replace to={path === '/' ? '/sign-in' : `/sign-in?to=${encodeURIComponent(wanted)}`} />;
  }
  const error = read.error ?? read.failureReason;
  const connection = error !== null ? 'lost' : session?.user === null ? 'signed-out' : 'up';
  return (
    <ConnectionProvider connection={connection}>
      <Pages
        session={shown}
        banner={
          <ConnectionBanner
            connection={connection}
            error={error}
            lastAtMs={read.dataUpdatedAt}
            retry={() => void read.refetch()}
          />
        }
      />
    </ConnectionProvider>
  );
}

function Reload() {
  useEffect(() => location.reload(), []);
  return <Waiting />;
}

function Pages({ session, banner }: { session: SignedIn; banner: ReactNode }) {
  const { user } = session;
  const [path] = useLocation();
  useEffect(forgetFirstKey, []);
  useEffect(() => deleteOfOthers(user.id), [user.id]);
  return (
    <SessionProvider session={session}>
      <OverlayHost key={user.id}>
        <Shell banner={banner}>
          <ErrorBoundary path={path}>
            <Suspense fallback={<Waiting />}>
              <Switch>
                {PAGES.filter(
                  ({ access }) => access === 'signed-in' || (access === 'operator' && user.operator),
                ).map(({ path, page }) => (
                  <Route key={path} path={path} component={page} />
                ))}
                <Route>
                  <NotFound />
                </Route>
              </Switch>
            </Suspense>
          </ErrorBoundary>
        </Shell>
      </OverlayHost>
    </SessionProvider>
  );
}

function NotFound() {
  const [, navigate] = useLocation();
  return (
    <Page title="Page not found">
      <EmptyState
        icon={Compass}
        title="This page does not exist"
        action={<Button onClick={() => navigate('/')}>Go to overview</Button>}
      >
        Check the URL. Some pages are only available to operators.
      </EmptyState>
    </Page>
  );
}

function Waiting() {
  return (
    <div role="status" className="flex min-h-[60dvh] items-center justify-center text-ink-3">
      <Spinner className="size-5" />
      <span className="sr-only">Loading</span>
    </div>
  );
}
