import { lazy, Suspense, useMemo } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { both, useRead } from '../../api/queries.ts';
import { COLORS } from '../../charts/colors.ts';
import { ButtonLink } from '../../components/button.tsx';
import { Card, Figure } from '../../components/card.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Skeleton } from '../../components/states.tsx';
import { exactMoney, money } from '../../format/money.ts';
import { compact, percent, whole } from '../../format/number.ts';
import { utcSpan, utcTick } from '../../format/time.ts';

const Chart = lazy(() => import('../../charts/chart.tsx'));

type Usage = ItemOf<'readUsage'>;

const HEIGHT = 140;

/** Usage of an account this month. */
export function AccountUsage({ accountId }: { accountId: string }) {
  const all = useRead('readUsage', { query: { account_id: accountId } }, { everyMs: 60_000 });
  const days = useRead('readUsage', { query: { account_id: accountId, by: 'day' } }, { everyMs: 60_000 });
  return (
    <Card
      title="Usage this month"
      hint="Calendar month in UTC"
      actions={
        <div className="flex flex-wrap gap-2">
          <ButtonLink size="small" to={`/usage?account=${accountId}`}>
            Usage
          </ButtonLink>
          <ButtonLink size="small" to={`/requests?account=${accountId}`}>
            Requests
          </ButtonLink>
        </div>
      }
    >
      <Loaded query={both(all, days)} loading={<Skeleton className="h-40 w-full" />}>
        {([sums, byDay]) => (
          <div className="grid gap-6 lg:grid-cols-[18rem_minmax(0,1fr)]">
            <Sums usage={sums.data[0]} />
            <Days days={byDay.data} readAt={days.dataUpdatedAt} />
          </div>
        )}
      </Loaded>
    </Card>
  );
}

function Sums({ usage }: { usage: Usage | undefined }) {
  const {
    requests = 0,
    errors = 0,
    prompt_tokens: prompt = 0,
    completion_tokens: completion = 0,
    cost_usd: cost = '0',
  } = usage ?? {};
  return (
    <dl className="grid grid-cols-2 content-start gap-x-4 gap-y-5">
      <Figure label="Cost" value={<span title={exactMoney(cost)}>{money(cost)}</span>} />
      <Figure label="Requests" value={whole(requests)} />
      <Figure
        label="Tokens"
        value={compact(prompt + completion)}
        note={`${compact(prompt)} in, ${compact(completion)} out`}
      />
      <Figure
        label="Errors"
        value={requests === 0 ? '—' : percent(errors / requests)}
        note={`${whole(errors)} of ${whole(requests)}`}
      />
    </dl>
  );
}

/** `readAt` in Unix milliseconds. */
function Days({ days, readAt }: { days: readonly Usage[]; readAt: number }) {
  const { times, series } = useMemo(() => {
    const byDay = new Map(days.map((row) => [row.day, row]));
    const month = daysOfMonth(new Date(readAt));
    return {
      times: month.map((day) => Date.parse(day) / 1000),
      series: [
        {
          label: 'Prompt tokens',
          color: COLORS.prompt,
          shape: 'bar' as const,
          values: month.map((day) => byDay.get(day)?.prompt_tokens ?? 0),
        },
        {
          label: 'Completion tokens',
          color: COLORS.completion,
          shape: 'bar' as const,
          values: month.map((day) => byDay.get(day)?.completion_tokens ?? 0),
        },
      ],
    };
  }, [days, readAt]);
  return (
    <Suspense fallback={<Skeleton className="h-[168px] w-full" />}>
      <Chart
        label="Tokens per day"
        times={times}
        series={series}
        unit="count"
        partial={times.length - 1}
        formatTime={utcSpan('day')}
        formatTick={utcTick('day')}
        height={HEIGHT}
      />
    </Suspense>
  );
}

/** Returns the UTC days of the month up to `now`, such as `2026-11-21`. */
function daysOfMonth(now: Date): string[] {
  const month = now.toISOString().slice(0, 8);
  return Array.from({ length: now.getUTCDate() }, (_, index) => month + String(index + 1).padStart(2, '0'));
}
