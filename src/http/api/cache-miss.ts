import type { RequestRow } from '../../accounts/ledger/request-json.ts';

/** Explains in one sentence why prompt tokens of a request were computed again; null: none were, or unknown. */
export function explainCacheMiss(
  row: Pick<RequestRow, 'cache_miss' | 'cache_miss_tokens' | 'cache_miss_after_ms'>,
): string | null {
  const { cache_miss: at, cache_miss_tokens: tokens, cache_miss_after_ms: afterMs } = row;
  if (at === null || afterMs === null) return null;
  const count = `${tokens.toLocaleString('en')} prompt tokens`;
  const when = `${duration(afterMs)} before`;
  switch (at) {
    case 'replica':
      return `The request begins like the one ${when}, but the replica computed ${count} of it again: its cache no longer had them, or the chat template writes earlier messages differently as a conversation goes on.`;
    case 'other_replica':
      return `The request begins like the one ${when}, which another replica processed, so ${count} were computed again.`;
    default:
      return `${subject(at)} from ${at === 'tools' || at === 'options' ? 'those' : 'that'} of the request ${when}, so ${count} were computed again.`;
  }
}

function subject(at: string): string {
  switch (at) {
    case 'tools':
      return 'The tools differ';
    case 'system':
      return 'The system message differs';
    case 'options':
      return 'The template variables, reasoning effort, tool choice or response format differ';
    default: {
      const [role = '', number = ''] = at.split(' ');
      return `${{ user: 'User message', assistant: 'Assistant message', tool: 'Tool result' }[role] ?? 'System message'} ${number} differs`;
    }
  }
}

function duration(ms: number): string {
  if (ms < 1000) return 'less than a second';
  const [amount, unit] =
    ms < 120_000 ? [ms / 1000, 's'] : ms < 7_200_000 ? [ms / 60_000, 'min'] : [ms / 3_600_000, 'h'];
  return `${Math.floor(amount)} ${unit}`;
}
