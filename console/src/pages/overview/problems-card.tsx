import { CircleAlert, CircleCheck, TriangleAlert } from 'lucide-react';
import type { ItemOf } from '../../api/client.ts';
import { together, type QueryState } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { Disclosure } from '../../components/disclosure.tsx';
import { useNow } from '../../components/now.ts';
import { Notice, Skeleton } from '../../components/states.tsx';
import { outcomeOf } from '../../requests/outcome.tsx';
import { useConnection } from '../../state/connection.tsx';
import { problemsOf, type Cause, type Problem } from './problems.ts';
import type { OverviewReads } from './use-overview.ts';

/** Number of problems that are shown without a click. */
const SHOWN = 6;

const LOOKS = {
  bad: { tone: 'text-bad', icon: CircleAlert, word: 'Problem:' },
  warn: { tone: 'text-warn', icon: TriangleAlert, word: 'Warning:' },
};

const ROW = 'flex flex-wrap items-center gap-x-3 gap-y-2 px-4 py-3 text-sm sm:px-5';

interface ProblemsProps {
  reads: OverviewReads;
  isOperator: boolean;
  hasAccount: boolean;
}

/** The problems, worst first, or one line that there are none. Says if they could not be checked. */
export function Problems({ reads, isOperator, hasAccount }: ProblemsProps) {
  const nowMs = useNow(60_000);
  const isUp = useConnection() === 'up';
  const { models, failed, refusals, keys, byKey, limits, health, alerts } = reads;
  const needed: QueryState<unknown>[] = [models, failed, refusals, keys, byKey];
  if (hasAccount) needed.push(limits);
  if (isOperator) needed.push(health, alerts);
  const { error, refetch } = together(needed);
  if (error || !isUp) {
    return (
      <Notice
        tone="bad"
        title="Could not check what needs attention"
        action={<Button onClick={() => void refetch()}>Try again</Button>}
      >
        {error ? <CodeText text={error.message} /> : 'The data below is not current.'}
      </Notice>
    );
  }
  if (needed.some(({ data }) => data === undefined)) return <Skeleton className="h-13 w-full" />;
  const problems = problemsOf({
    nowMs,
    models: models.data?.data ?? [],
    causes: causesOf(failed.data?.data ?? []),
    refusals: refusals.data?.data ?? [],
    keys: keys.data?.data ?? [],
    spend: byKey.data?.data ?? [],
    // Operators have alerts about the budgets of all accounts.
    limits: isOperator ? [] : (limits.data?.data ?? []),
    service: health.data && alerts.data ? { health: health.data, alerts: alerts.data.data } : null,
    requests: (code) => reads.requests({ status: code }),
    refusedPath: reads.refusedPath,
  });
  return (
    <section aria-label="What needs attention" className="rounded-xl border border-line bg-surface">
      {problems.length === 0 ? (
        <p className={ROW}>
          <CircleCheck className="size-5 shrink-0 text-good" />
          <span className="font-semibold">Nothing needs your attention</span>
        </p>
      ) : (
        <ProblemList problems={problems.slice(0, SHOWN)} />
      )}
      {problems.length > SHOWN && (
        <Disclosure
          label={`${problems.length - SHOWN} more`}
          className="border-t border-line [&>summary]:mx-4 [&>summary]:my-3"
        >
          <ProblemList problems={problems.slice(SHOWN)} />
        </Disclosure>
      )}
    </section>
  );
}

function ProblemList({ problems }: { problems: readonly Problem[] }) {
  return (
    <ul className="divide-y divide-line">
      {problems.map(({ level, text, action, to }) => {
        const { tone, icon: Icon, word } = LOOKS[level];
        return (
          <li key={text} className={ROW}>
            <Icon className={`size-5 shrink-0 ${tone}`} />
            <p className="min-w-0 flex-1 basis-52 wrap-anywhere">
              <span className="sr-only">{word} </span>
              <CodeText text={text} />
            </p>
            <ButtonLink size="small" to={to}>
              {action}
            </ButtonLink>
          </li>
        );
      })}
    </ul>
  );
}

/** Groups failed requests by error code, the most frequent first. */
export function causesOf(requests: readonly ItemOf<'listRequests'>[]): Cause[] {
  const groups = Map.groupBy(requests, ({ error_code: code }) => code ?? '');
  return [...groups]
    .flatMap(([code, rows]) => {
      const [latest] = rows;
      if (latest === undefined) return [];
      const isOurs = (latest.http_status ?? 500) >= 500;
      return [{ code, count: rows.length, meaning: outcomeOf(latest).meaning, isOurs }];
    })
    .toSorted((a, b) => b.count - a.count);
}
