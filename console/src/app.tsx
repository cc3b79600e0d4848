import { Compass } from 'lucide-react';
import { Suspense, useEffect } from 'react';
import { Redirect, Route, Switch, useLocation, useSearch } from 'wouter';
import { useRead } from './api/queries.ts';
import { Button } from './components/button.tsx';
import { Page } from './components/page.tsx';
import { Spinner } from './components/spinner.tsx';
import { EmptyState, ErrorState } from './components/states.tsx';
import { forgetFirstKey } from './pages/setup/first-key.ts';
import { PAGES } from './pages.tsx';
import { ErrorBoundary } from './shell/error-boundary.tsx';
import { SecretsProvider } from './shell/secrets.tsx';
import { SessionProvider, type SignedIn } from './shell/session.tsx';
import { Shell } from './shell/shell.tsx';

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

/** Pages for signed-in users. Others are sent to the sign-in page and return afterwards. */
function SignedInPages() {
  const session = useRead('getSession', undefined, { everyMs: 60_000 });
  const [path] = useLocation();
  const search = useSearch();
  if (session.isPending) return <Waiting />;
  if (session.data === undefined) {
    return (
      <div className="flex min-h-dvh items-center justify-center">
        <ErrorState error={session.error} retry={() => void session.refetch()} />
      </div>
    );
  }
  const { user } = session.data;
  if (user === null) {
    const wanted = search === '' ? path : `${path}?${search}`;
    return <Redirect replace to={path === '/' ? '/sign-in' : `/sign-in?to=${encodeURIComponent(wanted)}`} />;
  }
  return <Pages session={{ ...session.data, user }} />;
}

function Pages({ session }: { session: SignedIn }) {
  const { user } = session;
  const [path] = useLocation();
  useEffect(forgetFirstKey, []);
  return (
    <SessionProvider session={session}>
      <SecretsProvider key={user.id}>
        <Shell>
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
      </SecretsProvider>
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
