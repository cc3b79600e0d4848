import { CSPProvider } from '@base-ui/react/csp-provider';
import { QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { queryClient } from './api/queries.ts';
import { App } from './app.tsx';
import { Toasts } from './components/toast.tsx';
import './styles.css';

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
