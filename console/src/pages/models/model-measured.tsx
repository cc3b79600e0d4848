import { useId } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { addDays, useToday } from '../../components/date-range-days.ts';
import { DetailList } from '../../components/detail-list.tsx';
import { TextLink } from '../../components/link.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { SkeletonRows } from '../../components/states.tsx';
import { oneDecimal, percent, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { requestsPath } from '../../requests/filters.ts';
import { scopeInQuery, type Scope } from '../../state/scope.ts';
import { stagesOf } from './stages.ts';

/** Refetch interval, in milliseconds. */
const EVERY_MS = 15_000;
/** Number of requests whose stages are shown, the latest ones. */
const LATEST = 100;

/** How fast a model was and how often it failed, for the accounts of the scope. */
export function ModelMeasured({ id, scope }: { id: string; scope: Scope }) {
  const title = useId();
  const links = { ...scopeInQuery(scope), model: id };
  return (
    <section aria-labelledby={title}>
      <div className="mb-1 flex flex-wrap items-baseline justify-between gap-x-4">
        <h3 id={title} className="text-sm font-semibold">
          Measured
        </h3>
        <p className="flex gap-4 text-sm">
          <TextLink to={`/usage?${new URLSearchParams(links)}`}>Usage</TextLink>
          <TextLink to={requestsPath({ model: id }, scopeInQuery(scope))}>Requests</TextLink>
        </p>
      </div>
      <Period id={id} scope={scope} title="Since yesterday" days={1} />
      <Period id={id} scope={scope} title="Last 7 days" days={6} />
      <Stages id={id} scope={scope} />
    </section>
  );
}

/** The usage of the days before today and of today, in UTC. */
function Period({ id, scope, title, days }: { id: string; scope: Scope; title: string; days: number }) {
  const today = useToday();
  const query = { ...scope.query, model: id, from: addDays(today, -days), to: addDays(today, 1) };
  const read = useRead('readUsage', { query }, { everyMs: EVERY_MS, keep: true });
  return (
    <>
      <h4 className="mt-3 text-xs font-medium text-ink-3">{title}</h4>
      <Loaded query={read} loading={<SkeletonRows rows={3} />}>
        {({ data: [sums] }) =>
          sums === undefined || sums.requests === 0 ? (
            <p className="py-2 text-sm text-ink-3">No requests</p>
          ) : (
            <DetailList details={detailsOf(sums)} />
          )
        }
      </Loaded>
    </>
  );
}

function detailsOf({ requests, errors, ttft_ms: ttft, tokens_per_second: speed }: ItemOf<'readUsage'>) {
  const failed = `${percent(errors / requests)} failed`;
  return [
    { label: 'Requests', value: `${whole(requests)}, ${failed}` },
    ...(ttft === null
      ? []
      : [{ label: 'First token, p50 and p95', value: `${duration(ttft.p50)}, ${duration(ttft.p95)}` }]),
    ...(speed === null ? [] : [{ label: 'Speed, p50', value: `${oneDecimal(speed.p50)} tokens/s` }]),
  ];
}

/** Where the time of the latest requests went. */
function Stages({ id, scope }: { id: string; scope: Scope }) {
  const query = { ...scope.query, model: id, limit: LATEST };
  const read = useRead('listRequests', { query }, { everyMs: EVERY_MS, keep: true });
  const { count, queue, prefill, decode } = stagesOf(read.data?.data ?? []);
  if (count === 0) return null;
  return (
    <>
      <h4 className="mt-3 text-xs font-medium text-ink-3">
        Median of the latest {count === 1 ? 'request' : `${whole(count)} requests`}
      </h4>
      <DetailList
        details={[
          { label: 'Queue', value: duration(queue) },
          { label: 'Prefill', value: duration(prefill) },
          { label: 'Decode', value: duration(decode) },
        ]}
      />
    </>
  );
}
