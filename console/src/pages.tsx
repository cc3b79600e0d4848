import {
  Activity,
  BellRing,
  BookOpen,
  Boxes,
  ChartColumn,
  CodeXml,
  Gauge,
  KeyRound,
  LayoutDashboard,
  Layers,
  ListTree,
  ScrollText,
  SquareTerminal,
  Users,
  Wallet,
  type LucideIcon,
} from 'lucide-react';
import { lazy, type ComponentType } from 'react';

interface PageRoute {
  /** A wouter path pattern. */
  path: string;
  /** Loads the page on first use. */
  load: () => Promise<{ default: ComponentType }>;
  /** Entry of the sidebar. Its link is the path without parameters. */
  menu?: { label: string; icon: LucideIcon };
}

/** A group of pages, in the order of the sidebar. */
interface PageGroup {
  /** Heading in the sidebar; null: none. */
  label: string | null;
  /** `signed-in`: any user; `operator`: operators only; `open`: no session needed, shown without the shell. */
  access: 'signed-in' | 'operator' | 'open';
  pages: readonly PageRoute[];
}

/** A page with an entry in the sidebar. */
function listed(path: string, label: string, icon: LucideIcon, load: PageRoute['load']): PageRoute {
  return { path, load, menu: { label, icon } };
}

const GROUPS: readonly PageGroup[] = [
  {
    label: null,
    access: 'open',
    pages: [
      { path: '/setup', load: () => import('./pages/setup/setup-page.tsx') },
      { path: '/sign-in', load: () => import('./pages/sign-in/sign-in-page.tsx') },
      { path: '/invitation', load: () => import('./pages/sign-in/invitation-page.tsx') },
      { path: '/reset-password', load: () => import('./pages/sign-in/reset-password-page.tsx') },
    ],
  },
  {
    label: null,
    access: 'signed-in',
    pages: [
      listed('/', 'Overview', LayoutDashboard, () => import('./pages/overview/overview-page.tsx')),
      listed('/keys', 'API keys', KeyRound, () => import('./pages/keys/keys-page.tsx')),
      listed(
        '/playground',
        'Playground',
        SquareTerminal,
        () => import('./pages/playground/playground-page.tsx'),
      ),
      listed('/models', 'Models', Boxes, () => import('./pages/models/models-page.tsx')),
      listed('/docs/:operation?', 'API reference', CodeXml, () => import('./pages/docs/docs-page.tsx')),
      listed('/docs/guide/:page?', 'Guides', BookOpen, () => import('./pages/docs/guide-page.tsx')),
      { path: '/settings', load: () => import('./pages/settings/settings-page.tsx') },
    ],
  },
  {
    label: 'Account',
    access: 'signed-in',
    pages: [
      listed('/usage', 'Usage', ChartColumn, () => import('./pages/usage/usage-page.tsx')),
      listed('/spend', 'Spend', Wallet, () => import('./pages/spend/spend-page.tsx')),
      // The same route with and without a request ID, so that the list stays mounted behind the receipt.
      listed('/requests/:id?', 'Requests', ListTree, () => import('./pages/requests/requests-page.tsx')),
      listed('/members', 'Members', Users, () => import('./pages/members/members-page.tsx')),
    ],
  },
  {
    label: 'Operator',
    access: 'operator',
    pages: [
      listed(
        '/operator/operations',
        'Operations',
        Activity,
        () => import('./pages/operations/operations-page.tsx'),
      ),
      listed('/operator/accounts', 'Accounts', Layers, () => import('./pages/accounts/accounts-page.tsx')),
      { path: '/operator/accounts/:id', load: () => import('./pages/accounts/account-page.tsx') },
      listed('/operator/plans', 'Plans', Gauge, () => import('./pages/plans/plans-page.tsx')),
      listed('/operator/audit', 'Audit log', ScrollText, () => import('./pages/audit/audit-page.tsx')),
      listed('/operator/alerts', 'Alerts', BellRing, () => import('./pages/alerts/alerts-page.tsx')),
      ...['load', 'engines', 'health'].map((old) => ({
        path: `/operator/${old}`,
        load: () => import('./pages/operations/moved.tsx'),
      })),
    ],
  },
];

/** All pages, in the order in which their paths are tried: the longest first, such as `/docs/guide` before `/docs`. */
export const PAGES = GROUPS.flatMap(({ access, pages }) =>
  pages.map(({ path, load }) => ({ path, access, page: lazy(load) })),
).toSorted((a, b) => b.path.length - a.path.length);

/** Returns the sidebar of a user: groups of links to pages. */
export function menuOf({ operator }: { operator: boolean }) {
  return GROUPS.filter(({ access }) => access === 'signed-in' || (access === 'operator' && operator)).map(
    ({ label, pages }) => ({
      label,
      entries: pages.flatMap(({ path, menu }) =>
        menu === undefined ? [] : [{ ...menu, to: path.replace(/\/:.*$/, '') }],
      ),
    }),
  );
}
