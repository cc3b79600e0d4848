import { lazy, type ComponentType, type LazyExoticComponent } from 'react';

interface PageRoute {
  /** A wouter path pattern. */
  path: string;
  page: LazyExoticComponent<ComponentType>;
  /** `signed-in`: any user; `operator`: operators only; `open`: no session needed, shown without the shell. */
  access: 'signed-in' | 'operator' | 'open';
}

/** All pages, loaded on first use. */
export const PAGES: readonly PageRoute[] = [
  { path: '/setup', access: 'open', page: lazy(() => import('./pages/setup/setup-page.tsx')) },
  { path: '/sign-in', access: 'open', page: lazy(() => import('./pages/sign-in/sign-in-page.tsx')) },
  { path: '/invitation', access: 'open', page: lazy(() => import('./pages/sign-in/invitation-page.tsx')) },
  {
    path: '/reset-password',
    access: 'open',
    page: lazy(() => import('./pages/sign-in/reset-password-page.tsx')),
  },
  { path: '/', access: 'signed-in', page: lazy(() => import('./pages/overview/overview-page.tsx')) },
  { path: '/keys', access: 'signed-in', page: lazy(() => import('./pages/keys/keys-page.tsx')) },
  {
    path: '/playground',
    access: 'signed-in',
    page: lazy(() => import('./pages/playground/playground-page.tsx')),
  },
  { path: '/models', access: 'signed-in', page: lazy(() => import('./pages/models/models-page.tsx')) },
  {
    path: '/docs/guide/:page?',
    access: 'signed-in',
    page: lazy(() => import('./pages/docs/guide-page.tsx')),
  },
  {
    path: '/docs/:operation?',
    access: 'signed-in',
    page: lazy(() => import('./pages/docs/docs-page.tsx')),
  },
  { path: '/usage', access: 'signed-in', page: lazy(() => import('./pages/usage/usage-page.tsx')) },
  {
    // The same route with and without a request ID, so that the list stays mounted behind the receipt.
    path: '/requests/:id?',
    access: 'signed-in',
    page: lazy(() => import('./pages/requests/requests-page.tsx')),
  },
  { path: '/members', access: 'signed-in', page: lazy(() => import('./pages/members/members-page.tsx')) },
  { path: '/settings', access: 'signed-in', page: lazy(() => import('./pages/settings/settings-page.tsx')) },
  { path: '/operator/load', access: 'operator', page: lazy(() => import('./pages/operator/load-page.tsx')) },
  {
    path: '/operator/engines',
    access: 'operator',
    page: lazy(() => import('./pages/operator/engines-page.tsx')),
  },
  {
    path: '/operator/accounts',
    access: 'operator',
    page: lazy(() => import('./pages/operator/accounts-page.tsx')),
  },
  {
    path: '/operator/accounts/:id',
    access: 'operator',
    page: lazy(() => import('./pages/operator/account-page.tsx')),
  },
  {
    path: '/operator/plans',
    access: 'operator',
    page: lazy(() => import('./pages/operator/plans-page.tsx')),
  },
  {
    path: '/operator/audit',
    access: 'operator',
    page: lazy(() => import('./pages/operator/audit-page.tsx')),
  },
  {
    path: '/operator/health',
    access: 'operator',
    page: lazy(() => import('./pages/operator/health-page.tsx')),
  },
];
