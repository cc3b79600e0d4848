import {
  Activity,
  BookOpen,
  Boxes,
  ChartColumn,
  Cpu,
  Gauge,
  HeartPulse,
  KeyRound,
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

/** Entries of the sidebar, in order. */
export const NAVIGATION: readonly Group[] = [
  {
    label: null,
    operator: false,
    entries: [
      { path: '/keys', label: 'API keys', icon: KeyRound },
      { path: '/playground', label: 'Playground', icon: SquareTerminal },
      { path: '/models', label: 'Models', icon: Boxes },
      { path: '/docs', label: 'API reference', icon: BookOpen },
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
