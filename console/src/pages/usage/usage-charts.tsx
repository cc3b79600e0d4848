import { useLocation } from 'wouter';
import { useHrefWithAccount } from '../../shell/account.ts';
import type { OverTime } from './buckets.ts';
import { ChartCard } from './chart-card.tsx';
import { DRAWINGS, type Drawing } from './drawings.ts';
import type { Question } from './question.ts';
import type { Part } from './use-usage.ts';

interface UsageChartsProps {
  question: Question;
  times: readonly number[];
  /** Undefined: loading. */
  over: OverTime | undefined;
  before: OverTime | undefined;
  /** Null: loading, or not grouped. */
  parts: readonly Part[] | null;
  /** Returns the path of the requests of a time. */
  linkOf: (index: number) => string;
}

/** The usage charts. The first one has the full width. */
export function UsageCharts({ question, times, over, before, parts, linkOf }: UsageChartsProps) {
  const { unit, split, compare } = question;
  const [, navigate] = useLocation();
  const href = useHrefWithAccount();
  const seriesOf = (drawing: Drawing) =>
    over === undefined || (split !== 'status' && parts === null)
      ? null
      : drawing.seriesOf({ over, before: compare ? (before ?? null) : null, parts });
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      {DRAWINGS.map((drawing, index) => (
        <ChartCard
          key={drawing.name}
          {...{ drawing, times, unit, linkOf }}
          ofParts={split !== 'status'}
          series={seriesOf(drawing)}
          onOpen={(at) => navigate(href(linkOf(at)))}
          className={index === 0 ? 'lg:col-span-2' : ''}
        />
      ))}
    </div>
  );
}
