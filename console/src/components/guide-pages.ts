interface GuideGroup {
  label: string;
  /** Listed for operators only. */
  operator?: boolean;
  /** `title` is the first heading of the page. */
  pages: readonly { slug: string; title: string }[];
}

/** The pages of `docs/` in the order of the navigation. */
const GROUPS: readonly GuideGroup[] = [
  {
    label: 'Get started',
    pages: [
      { slug: 'clients', title: 'Client libraries' },
      { slug: 'agents', title: 'Agents and chat apps' },
      { slug: 'console', title: 'The web console' },
    ],
  },
  {
    label: 'API',
    pages: [
      { slug: 'api', title: 'API reference' },
      { slug: 'streams', title: 'Streams' },
      { slug: 'tools', title: 'Tool calls' },
      { slug: 'responses', title: 'Responses' },
      { slug: 'messages', title: 'Messages' },
      { slug: 'embeddings', title: 'Embeddings' },
      { slug: 'rerank', title: 'Rerank' },
      { slug: 'images', title: 'Images' },
      { slug: 'reasoning', title: 'Reasoning' },
      { slug: 'structured-outputs', title: 'Structured outputs and log probabilities' },
      { slug: 'idempotency', title: 'Idempotent requests' },
      { slug: 'errors', title: 'Errors' },
      { slug: 'management', title: 'Managing accounts over HTTP' },
    ],
  },
  {
    label: 'Accounts and usage',
    pages: [
      { slug: 'limits', title: 'Plans and limits' },
      { slug: 'ledger', title: 'The ledger' },
    ],
  },
  {
    label: 'Operate',
    operator: true,
    pages: [
      { slug: 'quick-start', title: 'Quick start' },
      { slug: 'configuration', title: 'Configuration' },
      { slug: 'sign-in', title: 'Sign-in' },
      { slug: 'models', title: 'Models' },
      { slug: 'replicas', title: 'Replicas' },
      { slug: 'routing', title: 'Routing' },
      { slug: 'recovery', title: 'Recovery of responses' },
      { slug: 'databases', title: 'Databases' },
      { slug: 'deploy', title: 'Deploy' },
      { slug: 'operations', title: 'Operations' },
      { slug: 'upgrading', title: 'Upgrading' },
      { slug: 'alerts', title: 'Alerts' },
      { slug: 'metrics', title: 'Metrics' },
      { slug: 'traces', title: 'Traces' },
      { slug: 'performance', title: 'Performance' },
      { slug: 'troubleshooting', title: 'Troubleshooting' },
      { slug: 'torture', title: 'Torture test' },
    ],
  },
  {
    label: 'Command line',
    operator: true,
    pages: [
      { slug: 'cli', title: 'The command line' },
      { slug: 'cli-accounts', title: 'The command line: accounts, keys and plans' },
      { slug: 'cli-users', title: 'The command line: users' },
      { slug: 'cli-usage', title: 'The command line: usage, ledger, receipts and the audit log' },
      { slug: 'cli-models', title: 'sluice models' },
      { slug: 'cli-engine', title: 'sluice engine' },
    ],
  },
];

/** Every page, also those that are only listed for operators: pages link to each other. */
export const GUIDES = GROUPS.flatMap(({ pages }) => pages);

export const guidesOf = ({ operator }: { operator: boolean }): readonly GuideGroup[] =>
  GROUPS.filter((group) => operator || group.operator !== true);
