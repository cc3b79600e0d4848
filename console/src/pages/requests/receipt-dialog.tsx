import { useState } from 'react';
import type { Answer } from '../../api/client.ts';
import { useAccountNames, useKeyNames } from '../../api/names.ts';
import { useRead } from '../../api/queries.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Facts } from '../../components/facts.tsx';
import { Failed, Notice, SkeletonRows } from '../../components/states.tsx';
import { whole } from '../../format/number.ts';
import { exactTime, utc } from '../../format/time.ts';
import type { Scope } from '../../shell/scope.tsx';
import { CostLines, HeldLimits, Ids, Part } from './receipt-parts.tsx';
import { outcomeOf, RequestStatus } from './outcome.tsx';
import { Waterfall } from './waterfall.tsx';

type Receipt = Answer<'getReceipt'>;

/** How often a request that runs is looked at. */
const RUNNING_MS = 1000;

interface ReceiptDialogProps {
  /** Null: it is closed. */
  id: string | null;
  scope: Scope;
  onClose: () => void;
}

/** All that is known of one request, beside the list that it is in. */
export function ReceiptDialog({ id, scope, onClose }: ReceiptDialogProps) {
  // What is shown stays until the window has gone.
  const [shown, setShown] = useState(id);
  if (id !== null && id !== shown) setShown(id);
  return (
    <Dialog side open={id !== null} onClose={onClose} title="Request">
      {shown !== null && <Body id={shown} scope={scope} />}
    </Dialog>
  );
}

function Body({ id, scope }: { id: string; scope: Scope }) {
  const read = useRead(
    'getReceipt',
    { params: { id } },
    { everyMs: (receipt) => (receipt?.request.state === 'open' ? RUNNING_MS : false) },
  );
  if (read.data !== undefined) return <Receipt receipt={read.data} scope={scope} />;
  return read.error === null ? (
    <SkeletonRows rows={8} />
  ) : (
    <Failed error={read.error} retry={() => void read.refetch()} />
  );
}

function Receipt({ receipt, scope }: { receipt: Receipt; scope: Scope }) {
  const { request, cost, limits } = receipt;
  return (
    <div className="space-y-6 pb-2">
      <div>
        <p className="text-sm font-medium break-words text-ink">{request.model}</p>
        <p className="mt-0.5 text-xs text-ink-3 tabular-nums">
          {exactTime(request.started_at)} ({utc(request.started_at)})
        </p>
        <p className="mt-3 text-sm font-medium">
          <RequestStatus request={request} />
        </p>
        <p className="mt-1 text-sm text-ink-3">
          {request.finish_reason !== null && <>Finish reason “{request.finish_reason}”. </>}
          {outcomeOf(request).meaning}
        </p>
      </div>
      <Waterfall receipt={receipt} />
      <Part title="Tokens">
        <Facts
          facts={[
            { label: 'Prompt', value: whole(request.prompt_tokens) },
            { label: 'Prompt, from the cache', value: whole(request.cached_tokens) },
            { label: 'Completion', value: whole(request.completion_tokens) },
            { label: 'Counted by', value: countedBy(receipt) },
          ]}
        />
      </Part>
      <CostLines request={request} cost={cost} />
      <HeldLimits plan={request.plan} limits={limits} />
      <Circumstances receipt={receipt} scope={scope} />
      <Ids request={request} />
      <Notice>Prompts and answers are never kept, so they cannot be shown here.</Notice>
    </div>
  );
}

function countedBy({ request, interrupted }: Receipt): string {
  if (request.usage_source === 'engine') return 'The engine';
  if (request.usage_source === 'clamped') return 'Clamped: the engine reported more than possible';
  if (request.usage_source === 'estimated') {
    return interrupted ? 'Estimate of the last checkpoint' : 'Estimate: the engine did not tell';
  }
  return request.state === 'open' ? 'Known at the end' : 'No count: nothing was generated';
}

function Circumstances({ receipt, scope }: { receipt: Receipt; scope: Scope }) {
  const { request, retries } = receipt;
  const key = useKeyNames(scope.query, [request.key_id]);
  const account = useAccountNames(scope.all);
  return (
    <Part title="Circumstances">
      <Facts
        facts={[
          ...(scope.all ? [{ label: 'Account', value: account(request.account_id) }] : []),
          { label: 'Key', value: key(request.key_id) },
          {
            label: 'Endpoint',
            value: `/v1/${request.endpoint === 'chat' ? 'chat/completions' : 'completions'}, ${request.streamed ? 'streamed' : 'in one piece'}`,
          },
          {
            label: 'State',
            value: { open: 'Running', settled: 'Settled', interrupted: 'Interrupted' }[request.state],
          },
          { label: 'HTTP status', value: request.http_status ?? '–' },
          {
            label: 'Delivered',
            value: { true: 'Yes', false: 'No: the caller had gone', null: 'Not known' }[
              `${request.delivered}`
            ],
          },
          { label: 'Replica', value: request.replica ?? 'None' },
          {
            label: 'Attempts',
            value:
              retries === 0
                ? whole(request.attempts)
                : `${whole(request.attempts)}, ${whole(retries)} refused`,
          },
        ]}
      />
    </Part>
  );
}
