import type { ConfigFile } from '../config/schema.ts';
import type { Log } from '../log.ts';
import { CrashSuspects } from './crash-suspects.ts';
import type { RecoveryLimits } from './recovery.ts';
import type { Accounting } from './request-accounting.ts';

/** Services shared by all generations. */
export interface Inference {
  accounting: Accounting;
  crashSuspects: CrashSuspects;
  /** Completion tokens between checkpoints. Checkpoints are also written at intervals of time. */
  checkpointTokens: number;
  recovery: RecoveryLimits;
}

export function openInference(
  accounting: Accounting,
  { ledger, recovery }: Pick<ConfigFile, 'ledger' | 'recovery'>,
  log: Log,
): Inference {
  const { checkpointTokens } = ledger;
  return { accounting, crashSuspects: new CrashSuspects(log), checkpointTokens, recovery };
}
