/** Alerts of the seeded service, oldest first. */
interface SeedAlert {
  condition: string;
  title: string;
  body: string;
  minutesAgo: number;
  /** Until it was resolved; null: it is firing. */
  minutes: number | null;
  /** State and error of the message for each channel. */
  states: readonly (readonly [state: 'pending' | 'sent' | 'failed' | 'silenced', error: string | null])[];
}

/** Settings of the seeded service. Nothing listens on these ports. */
export const SEED_ALERT_SETTINGS = {
  disabled: ['backup_late'],
  webhooks: [
    { name: 'chat', url: 'http://127.0.0.1:9/hooks/x', format: 'slack' },
    { name: 'pager', url: 'http://127.0.0.1:19/sluice', format: 'slack' },
  ],
};

const SENT = ['sent', null] as const;

export const SEED_ALERTS: readonly SeedAlert[] = [
  {
    condition: 'disk_low:gpu-2',
    title: 'Only 0.8 GiB are free on the disk of gpu-2',
    body: 'Requests are refused when the disk is full. Free some space on the disk of /var/lib/sluice: remove models or old backups.',
    minutesAgo: 4320,
    minutes: 46,
    states: [SENT, SENT],
  },
  {
    condition: 'backup_failed:gpu-1',
    title: 'The scheduled backup failed on gpu-1',
    body: 'It is tried again every 5 minutes. Reason: the disk is full.',
    minutesAgo: 1500,
    minutes: 12,
    states: [['failed', 'no response within 15 s'], SENT],
  },
  {
    condition: 'key_expiring:key_1:1',
    title: 'The key nightly-batch of Lumen Health expires on 2026-12-03',
    body: 'The key sk-sluice-3fk… is refused from 2026-12-03T00:00:00Z. Create a new key for the programs that use it.',
    minutesAgo: 700,
    minutes: null,
    states: [SENT, SENT],
  },
  {
    condition: 'budget_80:acct_1:usdPerMonth::2026-11',
    title: 'Lumen Health has used 83% of its monthly budget',
    body: '$41.72 of $50 are used. A request that may use more than the rest is refused. It resets at 2026-12-01T00:00:00Z.',
    minutesAgo: 95,
    minutes: null,
    states: [SENT, ['pending', 'the server responded with status 503']],
  },
  {
    condition: 'replica_down:google/gemma-3-27b-it:http://10.0.0.12:8000',
    title: 'The replica google/gemma-3-27b-it#1 is down',
    body: 'Reason: connect ECONNREFUSED 10.0.0.12:8000. The Operations page shows the state of all replicas.',
    minutesAgo: 7,
    minutes: null,
    states: [SENT, SENT],
  },
];
