import { ArrowDownRight, ArrowRight, ArrowUpRight } from 'lucide-react';
import type { ReactNode } from 'react';
import { Card, Figure } from '../../components/card.tsx';
import { Skeleton } from '../../components/states.tsx';
import { exactMoney, inexact, money } from '../../format/money.ts';
import { compact, percent, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import type { Sums } from './buckets.ts';
import { changeOf, changeOfShare, type Change } from './change.ts';

interface FigureDefinition {
  label: string;
  of: (sums: Sums) => number | null;
  text: (value: number, sums: Sums) => string;
  /** Exact value, shown on hover. */
  exact?: (value: number, sums: Sums) => string;
  /** Whether an increase is good; default: neither. */
  more?: 'good' | 'bad';
  hiddenIfZero?: true;
  /** How the value is compared to the previous one; default: relative. */
  compare?: typeof changeOf;
}

const count = (label: string, of: (sums: Sums) => number): FigureDefinition => ({
  label,
  of,
  text: compact,
  exact: whole,
});

const FIGURES: readonly FigureDefinition[] = [
  {
    label: 'Cost',
    of: (sums) => inexact(sums.cost_usd),
    text: (_, sums) => money(sums.cost_usd),
    exact: (_, sums) => exactMoney(sums.cost_usd),
  },
  count('Requests', (sums) => sums.requests),
  count('Prompt tokens', (sums) => sums.prompt_tokens),
  count('Completion tokens', (sums) => sums.completion_tokens),
  { ...count('Reasoning tokens', (sums) => sums.reasoning_tokens), hiddenIfZero: true },
  {
    label: 'Cache share',
    of: ({ cached_tokens: cached, prompt_tokens: prompt }) => (prompt === 0 ? null : cached / prompt),
    text: percent,
    compare: changeOfShare,
    exact: (_, sums) => `${whole(sums.cached_tokens)} of ${whole(sums.prompt_tokens)} prompt tokens`,
    more: 'good',
  },
  {
    label: 'Error rate',
    of: ({ errors, requests }) => (requests === 0 ? null : errors / requests),
    text: percent,
    compare: changeOfShare,
    exact: (_, { errors, requests }) => `${whole(errors)} of ${whole(requests)} requests`,
    more: 'bad',
  },
  { label: 'TTFT (p50)', of: (sums) => sums.ttft_ms?.p50 ?? null, text: duration, more: 'bad' },
  { label: 'TTFT (p95)', of: (sums) => sums.ttft_ms?.p95 ?? null, text: duration, more: 'bad' },
];

interface FiguresProps {
  /** Undefined: loading. */
  now: Sums | undefined;
  before: Sums | undefined;
  beforeText: string;
  /** How much less cached tokens cost than uncached ones, in USD; null: nothing, or not known. */
  savedUsd: string | null;
  children?: ReactNode;
}

export function Figures({ now, before, beforeText, savedUsd, children }: FiguresProps) {
  const figures = FIGURES.filter(
    ({ of, hiddenIfZero }) => !hiddenIfZero || [now, before].some((sums) => sums && of(sums) !== 0),
  );
  return (
    <Card>
      <dl
        className={`grid grid-cols-2 gap-x-4 gap-y-5 ${figures.length % 4 === 0 ? 'md:grid-cols-4' : 'md:grid-cols-5'}`}
      >
        {figures.map((kind) => (
          <UsageFigure key={kind.label} kind={kind} now={now} before={before} />
        ))}
      </dl>
      <p className="mt-5 flex flex-wrap justify-between gap-x-6 gap-y-1 border-t border-line pt-3 text-xs text-ink-3">
        <span>Compared to {beforeText}</span>
        {children}
        {savedUsd !== null && (
          <span>Cached tokens cost {money(savedUsd)} less than uncached ones, at the current prices</span>
        )}
      </p>
    </Card>
  );
}

function UsageFigure({
  kind,
  now,
  before,
}: {
  kind: FigureDefinition;
  now: Sums | undefined;
  before: Sums | undefined;
}) {
  const { label, of, text, exact, compare = changeOf } = kind;
  if (now === undefined) {
    return <Figure label={label} value={<Skeleton className="h-7 w-20" />} note={<Skeleton />} />;
  }
  const value = of(now);
  const earlier = before === undefined ? null : of(before);
  const change = compare(value, earlier);
  return (
    <Figure
      label={label}
      value={value === null ? '—' : <span title={exact?.(value, now)}>{text(value, now)}</span>}
      note={
        change === null ? (
          <span>{before === undefined ? '\u00a0' : '—'}</span>
        ) : (
          <Compared
            change={change}
            more={kind.more}
            before={earlier === null || before === undefined ? '' : text(earlier, before)}
          />
        )
      }
    />
  );
}

const ARROWS = { up: ArrowUpRight, down: ArrowDownRight, same: ArrowRight };

function Compared({
  change,
  more,
  before,
}: {
  change: Change;
  more: 'good' | 'bad' | undefined;
  before: string;
}) {
  const Arrow = ARROWS[change.direction];
  const isGood = (change.direction === 'up') === (more === 'good');
  const tone =
    more === undefined || change.direction === 'same' ? 'text-ink-3' : isGood ? 'text-good' : 'text-bad';
  return (
    <span
      className={`inline-flex items-center gap-1 tabular-nums ${tone}`}
      title={`Previous period: ${before}`}
    >
      <Arrow className="size-3.5 shrink-0" />
      {change.text}
    </span>
  );
}
