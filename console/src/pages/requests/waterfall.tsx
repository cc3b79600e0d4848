import type { Answer } from '../../api/client.ts';
import { oneDigit } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { between } from './outcome.tsx';
import { Part } from './receipt-parts.tsx';

type Receipt = Answer<'getReceipt'>;

interface Stage {
  name: string;
  /** What happens in it. */
  meaning: string;
  /** In milliseconds; null: it did not come to its end, or is not known. */
  ms: number | null;
  /** Of its bar. */
  colour: string;
}

/** The stages of a request, one after another, as long as they took. */
export function Waterfall({ receipt }: { receipt: Receipt }) {
  const { request, stages } = receipt;
  const all: readonly Stage[] = [
    {
      name: 'Queue',
      meaning: 'waiting for a slot of an engine',
      ms: stages.queue_ms,
      colour: 'bg-series-6',
    },
    {
      name: 'Prefill',
      meaning: 'reading the prompt, up to the first token',
      ms: stages.prefill_ms,
      colour: 'bg-series-2',
    },
    { name: 'Decode', meaning: 'generating the answer', ms: stages.decode_ms, colour: 'bg-series-1' },
  ];
  const total = between(request.started_at, request.ended_at);
  const known = all.reduce((sum, { ms }) => sum + (ms ?? 0), 0);
  const scale = Math.max(1, total ?? known);
  return (
    <Part title="Time" aside={total === null ? 'Not ended' : `${duration(total)} in all`}>
      <ul className="space-y-2.5">
        {all.map((stage, index) => (
          <Bar
            key={stage.name}
            stage={stage}
            before={all.slice(0, index).reduce((sum, { ms }) => sum + (ms ?? 0), 0) / scale}
            share={(stage.ms ?? 0) / scale}
            isRunning={request.state === 'open'}
          />
        ))}
      </ul>
      <p className="mt-3 text-xs text-ink-3 tabular-nums">{summary(receipt)}</p>
    </Part>
  );
}

interface BarProps {
  stage: Stage;
  /** Shares of the whole: what came before it, and itself. */
  before: number;
  share: number;
  isRunning: boolean;
}

function Bar({ stage: { name, meaning, ms, colour }, before, share, isRunning }: BarProps) {
  return (
    <li className="grid grid-cols-[4rem_minmax(0,1fr)_5rem] items-center gap-3 text-sm">
      <span title={meaning}>
        {name}
        <span className="sr-only">, {meaning}</span>
      </span>
      <span className="block h-3 overflow-hidden rounded bg-sunken" aria-hidden="true">
        {ms !== null && (
          <span
            className={`block h-full min-w-0.5 rounded-[3px] ${colour}`}
            style={{ width: `${share * 100}%`, marginLeft: `min(${before * 100}%, calc(100% - 2px))` }}
          />
        )}
      </span>
      <span className="text-right text-ink-2 tabular-nums">
        {ms === null ? (isRunning ? 'Not yet' : 'Not known') : duration(ms)}
      </span>
    </li>
  );
}

/** The two numbers that people compare requests by. */
function summary({ request, stages }: Receipt): string {
  const ttft = between(request.started_at, request.first_token_at);
  if (ttft === null) return 'No token came.';
  const { decode_ms } = stages;
  const further = request.completion_tokens - 1;
  const speed = decode_ms !== null && decode_ms > 0 && further > 0 ? (further / decode_ms) * 1000 : null;
  const first = `First token after ${duration(ttft)}`;
  return speed === null ? `${first}.` : `${first}, then ${oneDigit(speed)} tokens a second.`;
}
