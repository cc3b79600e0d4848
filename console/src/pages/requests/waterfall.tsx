import type { ResponseOf } from '../../api/client.ts';
import { COLORS } from '../../charts/colors.ts';
import { oneDecimal, whole } from '../../format/number.ts';
import { between, duration, wait } from '../../format/time.ts';
import { hasNoCompletion, type Request } from '../../requests/outcome.tsx';
import { ReceiptSection } from './receipt-parts.tsx';

type Receipt = ResponseOf<'getReceipt'>;

interface Stage {
  name: string;
  /** Description for tooltips. */
  meaning: string;
  /** Milliseconds; null: not started, or unknown. */
  ms: number | null;
  /** Duration, or why it is unknown. */
  text: string;
  /** Series color of the bar. */
  color: number;
}

/** A timeline of the stages of a request. */
export function Waterfall({ receipt }: { receipt: Receipt }) {
  const { request } = receipt;
  const stages = stagesOf(receipt);
  const total = between(request.started_at, request.ended_at);
  const known = stages.reduce((sum, { ms }) => sum + (ms ?? 0), 0);
  const scale = Math.max(1, total ?? known);
  return (
    <ReceiptSection title="Timing" aside={total === null ? 'Running' : `${duration(total)} total`}>
      <ul className="space-y-2.5">
        {stages.map((stage, index) => (
          <Bar
            key={stage.name}
            stage={stage}
            before={stages.slice(0, index).reduce((sum, { ms }) => sum + (ms ?? 0), 0) / scale}
            share={(stage.ms ?? 0) / scale}
          />
        ))}
      </ul>
      {!hasNoCompletion(request) && (
        <p className="mt-3 text-xs text-ink-3 tabular-nums">{summary(receipt)}</p>
      )}
    </ReceiptSection>
  );
}

const QUEUE = { name: 'Queue', meaning: 'waiting for a slot', color: COLORS.queue };
const STAGES = [
  QUEUE,
  { name: 'Prefill', meaning: 'processing the prompt until the first token', color: COLORS.prefill },
  { name: 'Decode', meaning: 'generating the completion', color: COLORS.decode },
] as const;

const EMBEDDING_STAGES = [QUEUE, { name: 'Compute', meaning: 'computing the result', color: COLORS.prefill }];

/** Returns the stages. The time after the last finished stage belongs to the stage that did not finish. */
function stagesOf({ request, stages }: Receipt): Stage[] {
  const total = between(request.started_at, request.ended_at);
  const embeds = hasNoCompletion(request);
  const took = embeds
    ? [stages.queue_ms, computeMs(request, stages.queue_ms, total)]
    : [stages.queue_ms, stages.prefill_ms, stages.decode_ms];
  const known = took.reduce<number>((sum, ms) => sum + (ms ?? 0), 0);
  const last = took.indexOf(null);
  return (embeds ? EMBEDDING_STAGES : STAGES).map((stage, index) => {
    const ms = took[index] ?? null;
    if (ms !== null) return { ...stage, ms, text: duration(ms) };
    if (index > last)
      return { ...stage, ms: null, text: request.state === 'open' ? 'Pending' : 'Not reached' };
    if (request.state === 'open') return { ...stage, ms: null, text: 'In progress' };
    if (total === null) return { ...stage, ms: null, text: 'Unknown' };
    const rest = Math.max(0, total - known);
    return { ...stage, ms: rest, text: `Aborted, ${duration(rest)}` };
  });
}

/** Returns the time for embeddings or scores, which have no tokens to measure; null: not complete. */
function computeMs(request: Request, queueMs: number | null, totalMs: number | null): number | null {
  const isComplete = request.state === 'settled' && request.error_code === null;
  return isComplete && totalMs !== null ? Math.max(0, totalMs - (queueMs ?? 0)) : null;
}

interface BarProps {
  stage: Stage;
  /** Shares of the total time: of the stages before, and of this stage. */
  before: number;
  share: number;
}

function Bar({ stage: { name, meaning, ms, text, color }, before, share }: BarProps) {
  return (
    <li className="grid grid-cols-[4rem_minmax(0,1fr)_6.5rem] items-center gap-3 text-sm">
      <span title={meaning}>
        {name}
        <span className="sr-only">, {meaning}</span>
      </span>
      <span className="block h-3 overflow-hidden rounded bg-sunken" aria-hidden="true">
        {ms !== null && (
          <span
            className="block h-full min-w-0.5 rounded-[3px]"
            style={{
              background: `var(--series-${color})`,
              width: `${share * 100}%`,
              marginLeft: `min(${before * 100}%, calc(100% - 2px))`,
            }}
          />
        )}
      </span>
      <span className="text-right text-ink-2 tabular-nums">{text}</span>
    </li>
  );
}

/** Returns time to first token and throughput. */
function summary({ request, stages, prefill }: Receipt): string {
  const ttft = between(request.started_at, request.first_token_at);
  if (ttft === null) {
    if (request.state !== 'open') return 'No tokens were generated';
    return prefill === null ? 'No tokens yet' : `No tokens yet: ${progressOf(prefill)}`;
  }
  const { decode_ms } = stages;
  const further = request.completion_tokens - 1;
  const speed = decode_ms !== null && decode_ms > 0 && further > 0 ? (further / decode_ms) * 1000 : null;
  const first = `First token after ${duration(ttft)}`;
  return speed === null ? first : `${first}, then ${oneDecimal(speed)} tokens/s`;
}

function progressOf(prefill: NonNullable<Receipt['prefill']>): string {
  const { prompt_tokens: all, done_tokens: done, left_ms: leftMs } = prefill;
  const left = leftMs === null ? '' : `, ${wait(leftMs)} left`;
  return `${whole(done)} of ${whole(all)} prompt tokens processed${left}`;
}
