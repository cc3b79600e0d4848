/** Fictional accounts, users and keys of the seeded service. Times are days before now. */
import { DEFAULT_ACCOUNT_ID, type AccountStatus, type MemberRole } from '../../src/database/schema.ts';
import type { Rhythm } from './traffic.ts';

interface SeedAccount {
  id: string;
  name: string;
  plan: 'free' | 'standard' | 'scale';
  status: AccountStatus;
  /** Creation time. */
  daysAgo: number;
}

const ACME = DEFAULT_ACCOUNT_ID;
const NORTHWIND = 'acct_6e6f72746877696e64206c61';
const PAPERPLANE = 'acct_7061706572706c616e650a21';
const HELIX = 'acct_68656c697820726f626f7469';
const LUMEN = 'acct_6c756d656e206865616c7468';
const ATLAS = 'acct_61746c6173206d6170730a0a';
const TIDEWATER = 'acct_74696465776174657220616e';
const HARBOR = 'acct_6f6c6420686172626f722070';

export const SEED_ACCOUNTS: readonly SeedAccount[] = [
  { id: ACME, name: 'Acme', plan: 'scale', status: 'active', daysAgo: 84 },
  { id: NORTHWIND, name: 'Northwind Labs', plan: 'scale', status: 'active', daysAgo: 77 },
  { id: PAPERPLANE, name: 'Paperplane', plan: 'standard', status: 'active', daysAgo: 61 },
  { id: HELIX, name: 'Helix Robotics', plan: 'standard', status: 'active', daysAgo: 48 },
  { id: LUMEN, name: 'Lumen Health', plan: 'standard', status: 'active', daysAgo: 33 },
  { id: ATLAS, name: 'Atlas Maps', plan: 'free', status: 'active', daysAgo: 12 },
  { id: TIDEWATER, name: 'Tidewater Analytics', plan: 'free', status: 'suspended', daysAgo: 40 },
  { id: HARBOR, name: 'Old Harbor Press', plan: 'standard', status: 'closed', daysAgo: 66 },
];

interface SeedUser {
  name: string;
  email: string;
  accounts: Readonly<Record<string, MemberRole>>;
}

export const SEED_USERS: readonly SeedUser[] = [
  { name: 'Mateo Rossi', email: 'mateo@acme.example', accounts: { [ACME]: 'member' } },
  { name: 'Priya Raman', email: 'priya@acme.example', accounts: { [ACME]: 'owner', [LUMEN]: 'member' } },
  { name: 'Jonas Weber', email: 'jonas@acme.example', accounts: { [ACME]: 'member' } },
  { name: 'Aiko Tanaka', email: 'aiko@northwind.example', accounts: { [NORTHWIND]: 'owner' } },
  { name: 'Samuel Okafor', email: 'samuel@northwind.example', accounts: { [NORTHWIND]: 'member' } },
  { name: 'Léa Moreau', email: 'lea@paperplane.example', accounts: { [PAPERPLANE]: 'owner' } },
  { name: 'Hannah Schmidt', email: 'hannah@helix.example', accounts: { [HELIX]: 'owner' } },
  { name: 'Tomás Álvarez', email: 'tomas@helix.example', accounts: { [HELIX]: 'member' } },
  { name: 'Noor Haddad', email: 'noor@lumen.example', accounts: { [LUMEN]: 'owner' } },
  { name: 'Oskar Nyström', email: 'oskar@atlas.example', accounts: { [ATLAS]: 'owner' } },
  { name: 'Grace Kimani', email: 'grace@tidewater.example', accounts: { [TIDEWATER]: 'owner' } },
];

/** A key and its share of the seeded requests. */
export interface SeedKey {
  account: string;
  name: string;
  /** Default `caller`. */
  kind?: 'caller' | 'admin';
  daysAgo: number;
  /** Negative: in the future. */
  expiresDaysAgo?: number;
  revokedDaysAgo?: number;
  /** Default: never used. */
  usedDaysAgo?: number;
  ip?: string;
  /** Programs that use it, the latest one first. Default: not recorded. */
  clients?: readonly string[];
  models?: readonly string[];
  tags?: readonly string[];
  limits?: { usdPerMonth?: string; requestsPerMinute?: number; tokensPerDay?: number };
  /** Share of all requests; default: none. */
  weight?: number;
  rhythm?: Rhythm;
}

const JUST_NOW = 0.002;
const SMALL = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const MISTRAL = 'mistralai/Mistral-Small-3.2-24B-Instruct';
const QWEN = 'Qwen/Qwen3-32B';

export const SEED_KEYS: readonly SeedKey[] = [
  {
    account: ACME,
    name: 'production-api',
    tags: ['production', 'team:platform', 'eu-central'],
    daysAgo: 82,
    usedDaysAgo: JUST_NOW,
    ip: '203.0.113.24',
    clients: ['OpenAI Python', 'OpenAI Python', 'OpenAI JavaScript'],
    limits: { usdPerMonth: '400' },
    weight: 190,
    rhythm: 'steady',
  },
  {
    account: ACME,
    name: 'support-assistant',
    tags: ['production', 'team:support'],
    daysAgo: 58,
    usedDaysAgo: JUST_NOW,
    ip: '203.0.113.61',
    clients: ['AI SDK'],
    models: [QWEN, MISTRAL],
    limits: { usdPerMonth: '2', requestsPerMinute: 120 },
    weight: 110,
  },
  {
    account: ACME,
    name: 'nightly-summaries',
    daysAgo: 51,
    usedDaysAgo: 0.3,
    ip: '203.0.113.80',
    clients: ['Anthropic Python', 'LangChain'],
    weight: 60,
    rhythm: 'nightly',
  },
  {
    account: ACME,
    name: 'ci-tests',
    tags: ['ci'],
    daysAgo: 44,
    usedDaysAgo: 0.05,
    ip: '192.0.2.44',
    clients: ['curl', 'HTTPX'],
    models: [SMALL],
    limits: { tokensPerDay: 2_000_000 },
    weight: 40,
  },
  {
    account: ACME,
    name: 'mateo-laptop',
    daysAgo: 24,
    expiresDaysAgo: -6,
    usedDaysAgo: 0.8,
    ip: '2001:db8:1f::7a',
    clients: ['Claude Code', 'Codex', 'Unrecognized'],
    weight: 14,
  },
  {
    account: ACME,
    name: 'staging',
    daysAgo: 34,
    expiresDaysAgo: 4,
    usedDaysAgo: 4.2,
    ip: '203.0.113.90',
    weight: 22,
  },
  {
    account: ACME,
    name: 'old-gateway',
    daysAgo: 80,
    revokedDaysAgo: 12,
    usedDaysAgo: 12.1,
    ip: '203.0.113.12',
    weight: 45,
    rhythm: 'steady',
  },
  { account: ACME, name: 'mobile-app', daysAgo: 0.2, limits: { usdPerMonth: '50' } },
  { account: ACME, name: 'terraform', kind: 'admin', daysAgo: 79, usedDaysAgo: 2.4, ip: '192.0.2.10' },
  {
    account: NORTHWIND,
    name: 'research-cluster',
    daysAgo: 76,
    usedDaysAgo: JUST_NOW,
    ip: '198.51.100.23',
    weight: 120,
    rhythm: 'steady',
  },
  { account: NORTHWIND, name: 'notebooks', daysAgo: 70, usedDaysAgo: 0.1, ip: '198.51.100.40', weight: 45 },
  { account: PAPERPLANE, name: 'drafting', daysAgo: 60, usedDaysAgo: JUST_NOW, ip: '192.0.2.77', weight: 85 },
  { account: PAPERPLANE, name: 'preview', daysAgo: 21, usedDaysAgo: 1.2, ip: '192.0.2.78', weight: 10 },
  { account: HELIX, name: 'planner', daysAgo: 47, usedDaysAgo: 0.02, ip: '198.51.100.90', weight: 60 },
  { account: LUMEN, name: 'triage-notes', daysAgo: 32, usedDaysAgo: 0.05, ip: '192.0.2.130', weight: 45 },
  { account: ATLAS, name: 'geocoder', daysAgo: 11, usedDaysAgo: 0.4, ip: '192.0.2.201', weight: 12 },
  { account: TIDEWATER, name: 'scraper', daysAgo: 39, usedDaysAgo: 3.3, ip: '192.0.2.99', weight: 30 },
  { account: HARBOR, name: 'catalogue', daysAgo: 65, usedDaysAgo: 21, ip: '192.0.2.15', weight: 25 },
];
