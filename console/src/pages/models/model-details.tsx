import { useId } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { addDays, useToday } from '../../components/date-range-days.ts';
import { DetailList, Mono, type Detail } from '../../components/detail-list.tsx';
import { TextLink } from '../../components/link.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { Loaded, SkeletonRows } from '../../components/states.tsx';
import { capabilityText, generatesText, modalityText } from '../../format/modality.ts';
import { money } from '../../format/money.ts';
import { bytes, oneDecimal, percent, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { requestsPath } from '../../requests/filters.ts';
import { scopeInQuery, type Scope } from '../../state/account.ts';
import { stagesOf } from './stages.ts';

type Model = ItemOf<'listServedModels'>;

export function ModelDetails({ model, isOperator }: { model: Model; isOperator: boolean }) {
  return <DetailList details={[...detailsOf(model), ...(isOperator ? originOf(model) : [])]} />;
}

function detailsOf(model: Model): (Detail | false)[] {
  const modality = modalityText(model);
  const capabilities = capabilityText(model);
  const {
    context_length: context,
    context_tokens: configured,
    max_completion_tokens: completion,
    replicas,
    replicas_ready: ready,
  } = model;
  return [
    { label: 'State', value: <StateBadge status={model} /> },
    { label: 'Requests', value: `${whole(model.in_flight)} in flight, ${whole(model.waiting)} waiting` },
    replicas > 1 && { label: 'Replicas ready', value: `${whole(ready)} of ${whole(replicas)}` },
    modality !== null && { label: 'Modality', value: modality },
    capabilities !== '' && { label: 'Capabilities', value: capabilities },
    { label: 'Default model', value: model.is_default ? <Badge tone="accent">Default</Badge> : 'No' },
    {
      label: 'Context length',
      value: context === null && configured === null ? '—' : `${whole(context ?? configured ?? 0)} tokens`,
    },
    completion !== null &&
      completion !== context && { label: 'Maximum completion', value: `${whole(completion)} tokens` },
    ...(model.invalid ? [] : pricesOf(model)),
    { label: 'Quantization', value: model.quantization ?? '—' },
    { label: 'Aliases', value: model.aliases.length === 0 ? 'None' : model.aliases.join(', ') },
  ];
}

function originOf(model: Model): (Detail | false)[] {
  return [
    { label: 'Defined in', value: model.origin === 'file' ? 'Configuration file' : 'Database (added)' },
    {
      label: 'Source',
      value: model.source ? <Mono>{model.source}</Mono> : model.invalid ? '—' : 'Other servers',
    },
    model.downloaded !== null && { label: 'File', value: fileText(model) },
    model.embedded && {
      label: 'Stays in memory',
      value: model.keep === true ? 'Always' : 'Until others need it',
    },
    model.embedded && {
      label: 'Memory in use',
      value: model.memory_bytes === null ? '—' : bytes(model.memory_bytes),
    },
    { label: 'License', value: model.license ?? '—' },
  ];
}

function pricesOf(model: Model): (Detail | false)[] {
  const { prompt, input_cache_read: cached, completion } = model.pricing;
  const generates = generatesText(model);
  return [
    { label: 'Prompt price', value: priceText(prompt) },
    generates && cached !== null && { label: 'Cached prompt price', value: priceText(cached) },
    generates && { label: 'Completion price', value: priceText(completion) },
  ];
}

function fileText({ size_bytes: size, downloaded }: Model): string {
  const state = downloaded === null ? '—' : downloaded ? 'Downloaded' : 'Not downloaded';
  return size === null ? state : `${state}, ${bytes(size)}`;
}

function priceText(usd: string): string {
  return /[1-9]/.test(usd) ? `${money(usd)} per million tokens` : 'Free';
}

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
            <DetailList details={measuredOf(sums)} />
          )
        }
      </Loaded>
    </>
  );
}

function measuredOf({ requests, errors, ttft_ms: ttft, tokens_per_second: speed }: ItemOf<'readUsage'>) {
  const failed = `${percent(errors / requests)} failed`;
  return [
    { label: 'Requests', value: `${whole(requests)}, ${failed}` },
    ttft !== null && {
      label: 'First token, p50 and p95',
      value: `${duration(ttft.p50)}, ${duration(ttft.p95)}`,
    },
    speed !== null && { label: 'Speed, p50', value: `${oneDecimal(speed.p50)} tokens/s` },
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
