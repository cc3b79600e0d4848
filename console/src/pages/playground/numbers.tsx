import type { ReactNode } from 'react';
import { duration } from '../../format/time.ts';
import { money } from '../../format/money.ts';
import { counted, oneDecimal } from '../../format/number.ts';
import { TextLink } from '../../components/link.tsx';
import { speedOf, type Answer } from './answer.ts';

/** Usage, timing and cost of a response. */
export function Numbers({ answer }: { answer: Answer }) {
  const { choices, usage, ttftMs, totalMs, cost, requestId } = answer;
  const speed = speedOf(answer);
  return (
    <div className="mt-2.5 flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-ink-3">
      <dl className="contents">
        {usage && <Metric name="Prompt">{counted(usage.promptTokens, 'token')}</Metric>}
        {usage && usage.cachedTokens > 0 && (
          <Metric name="Cached">{counted(usage.cachedTokens, 'token')}</Metric>
        )}
        {usage && <Metric name="Completion">{counted(usage.completionTokens, 'token')}</Metric>}
        {/* With a single choice, the label of its reasoning has this count. */}
        {usage && usage.reasoningTokens > 0 && choices.length !== 1 && (
          <Metric name="Reasoning">{counted(usage.reasoningTokens, 'token')}</Metric>
        )}
        {ttftMs !== null && (
          <Metric name="TTFT" title="Time to first token">
            {duration(ttftMs)}
          </Metric>
        )}
        {speed !== null && (
          <Metric name="Throughput" title="Tokens per second after the first token">
            {oneDecimal(speed)} tokens/s
          </Metric>
        )}
        {totalMs !== null && <Metric name="Total">{duration(totalMs)}</Metric>}
        {cost !== null && (
          <Metric name="Cost" title={`$${cost}`}>
            {money(cost)}
          </Metric>
        )}
        <Metric name="Finish reason">{endOf(answer)}</Metric>
      </dl>
      {requestId !== null && (
        <TextLink to={`/requests/${requestId}`} className="text-xs">
          Receipt
        </TextLink>
      )}
    </div>
  );
}

function Metric({ name, title, children }: { name: string; title?: string; children: ReactNode }) {
  return (
    <div className="flex gap-1 whitespace-nowrap" title={title}>
      <dt>{name}</dt>
      <dd className="text-ink-2 tabular-nums">{children}</dd>
    </div>
  );
}

/** Returns the finish reason, error code, or "stopped by you". */
function endOf({ choices, chosen, stopped, fault }: Answer): string {
  if (stopped) return 'stopped by you';
  if (fault !== null) return fault.code;
  return choices[chosen]?.finish ?? '—';
}
