import {
  Activity,
  BookOpen,
  Boxes,
  ChartColumn,
  CodeXml,
  Cpu,
  Gauge,
  HeartPulse,
  KeyRound,
  LayoutDashboard,
  Layers,
  ListTree,
  ScrollText,
  SquareTerminal,
  Users,
  type LucideIcon,
} from 'lucide-react';

interface Entry {
  path: string;
  label: string;
  icon: LucideIcon;
}

interface Group {
  label: string | null;
  /** Only shown to operators. */
  operator: boolean;
  entries: readonly Entry[];
}

/** Returns the entry of the sidebar that a path belongs to: the one with the longest matching path. */
export function currentEntry(path: string): Entry | undefined {
  return NAVIGATION.flatMap(({ entries }) => entries)
    .filter((entry) => path === entry.path || (entry.path !== '/' && path.startsWith(`${entry.path}/`)))
    .toSorted((a, b) => b.path.length - a.path.length)[0];
}

/** Entries of the sidebar, in order. */
export const NAVIGATION: readonly Group[] = [
  {
    label: null,
    operator: false,
    entries: [
      { path: '/', label: 'Overview', icon: LayoutDashboard },
      { path: '/keys', label: 'API keys', icon: KeyRound },
      { path: '/playground', label: 'Playground', icon: SquareTerminal },
      { path: '/models', label: 'Models', icon: Boxes },
      { path: '/docs', label: 'API reference', icon: CodeXml },
      { path: '/docs/guide', label: 'Guides', icon: BookOpen },
    ],
  },
  {
    label: 'Account',
    operator: false,
    entries: [
      { path: '/usage', label: 'Usage', icon: ChartColumn },
      { path: '/requests', label: 'Requests', icon: ListTree },
      { path: '/members', label: 'Members', icon: Users },
    ],
  },
  {
    label: 'Operator',
    operator: true,
    entries: [
      { path: '/operator/load', label: 'Load', icon: Activity },
      { path: '/operator/engines', label: 'Engines', icon: Cpu },
      { path: '/operator/accounts', label: 'Accounts', icon: Layers },
      { path: '/operator/plans', label: 'Plans', icon: Gauge },
      { path: '/operator/audit', label: 'Audit log', icon: ScrollText },
      { path: '/operator/health', label: 'Health', icon: HeartPulse },
    ],
  },
];
