import { CSPProvider } from '@base-ui/react/csp-provider';
import { QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { queryClient } from './api/queries.ts';
import { App } from './app.tsx';
import { Toasts } from './components/toast.tsx';
import { PAGES } from './pages.tsx';
import { openSignIn } from './state/leave-warning.ts';
import { onClearedElsewhere } from './state/user-storage.ts';
import './styles.css';

measureScrollbar();
addEventListener('resize', measureScrollbar);
// The user signed out in another tab. Links such as invitations stay open.
onClearedElsewhere(() => {
  if (!PAGES.some(({ access, path }) => access === 'open' && path === location.pathname)) openSignIn();
});

const root = document.querySelector('#root');
if (root === null) throw new TypeError('missing element #root');
// `ErrorBoundary` logs the errors that it catches.
createRoot(root, { onCaughtError: () => {} }).render(
  <StrictMode>
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={queryClient}>
        <App />
        <Toasts />
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
);

/** Sets `--scrollbar-width` for the styles of open dialogs. Zooming changes it. */
function measureScrollbar(): void {
  const probe = document.createElement('div');
  Object.assign(probe.style, {
    position: 'fixed',
    width: '100px',
    overflowY: 'scroll',
    visibility: 'hidden',
  });
  document.body.append(probe);
  document.documentElement.style.setProperty('--scrollbar-width', `${100 - probe.clientWidth}px`);
  probe.remove();
}
