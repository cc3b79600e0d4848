import type { ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { both, useRead } from '../../api/queries.ts';
import { ButtonLink } from '../../components/button.tsx';
import { Card, Figure } from '../../components/card.tsx';
import { useToday, addDays } from '../../components/date-range-days.ts';
import { Loaded } from '../../components/loaded.tsx';
import { Skeleton } from '../../components/states.tsx';
import { exactMoney, money } from '../../format/money.ts';
import { compact, percent, whole } from '../../format/number.ts';
import { scopeInQuery, type Scope } from '../../state/scope.ts';

type Sums = ItemOf<'readUsage'>;

const EVERY_MS = 15_000;

interface Measure {
  label: string;
  text: (sums: Sums) => string;
  /** Exact value, shown on hover. */
  exact: (sums: Sums) => string;
}

const tokensOf = (sums: Sums): number => sums.prompt_tokens + sums.completion_tokens;

const MEASURES: readonly Measure[] = [
  {
    label: 'Requests',
    text: (sums) => compact(sums.requests),
    exact: (sums) => whole(sums.requests),
  },
  {
    label: 'Tokens',
    text: (sums) => compact(tokensOf(sums)),
    exact: (sums) => `${whole(sums.prompt_tokens)} prompt, ${whole(sums.completion_tokens)} completion`,
  },
  {
    label: 'Cost',
    text: (sums) => money(sums.cost_usd),
    exact: (sums) => exactMoney(sums.cost_usd),
  },
  {
    label: 'Errors',
    text: (sums) => compact(sums.errors),
    exact: (sums) => `${whole(sums.errors)} of ${whole(sums.requests)} requests`,
  },
  {
    label: 'Error rate',
    text: (sums) => (sums.requests === 0 ? '—' : percent(sums.errors / sums.requests)),
    exact: (sums) => `${whole(sums.errors)} of ${whole(sums.requests)} requests`,
  },
];

/** The usage of the current UTC day, compared to all of the previous day. */
export function Today({ scope }: { scope: Scope }) {
  const today = useToday();
  const options = { everyMs: EVERY_MS, keep: true };
  const now = useRead(
    'readUsage',
    { query: { ...scope.query, from: today, to: addDays(today, 1) } },
    options,
  );
  const before = useRead(
    'readUsage',
    { query: { ...scope.query, from: addDays(today, -1), to: today } },
    options,
  );
  const query = new URLSearchParams({ ...scopeInQuery(scope), range: 'today' });
  return (
    <Card
      title="Today (UTC)"
      actions={
        <ButtonLink size="small" to={`/usage?${query}`}>
          View usage
        </ButtonLink>
      }
    >
      <Loaded query={both(now, before)} loading={<Figures />}>
        {([ofToday, ofYesterday]) => <Figures now={ofToday} before={ofYesterday} />}
      </Loaded>
    </Card>
  );
}

interface FiguresProps {
  /** Undefined: loading. */
  now?: { data: readonly Sums[] };
  before?: { data: readonly Sums[] };
}

function Figures({ now, before }: FiguresProps) {
  return (
    <dl className="grid grid-cols-2 gap-x-4 gap-y-5 sm:grid-cols-3 lg:grid-cols-5">
      {MEASURES.map((measure) => (
        <Figure
          key={measure.label}
          label={measure.label}
          value={now === undefined ? <Skeleton className="h-7 w-20" /> : shown(measure, now)}
          note={before === undefined ? <Skeleton /> : <>Yesterday: {shown(measure, before)}</>}
        />
      ))}
    </dl>
  );
}

/** A period without requests has no usage row. */
function shown({ text, exact }: Measure, { data: [sums] }: { data: readonly Sums[] }): ReactNode {
  return sums === undefined ? '—' : <span title={exact(sums)}>{text(sums)}</span>;
}
