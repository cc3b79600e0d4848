import { ChevronLeft, ChevronRight } from 'lucide-react';
import { useEffect, useState } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { IconButton } from '../../components/button.tsx';
import { DetailList } from '../../components/detail-list.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Loaded, Notice, SkeletonRows } from '../../components/states.tsx';
import { whole } from '../../format/number.ts';
import { exactTime, utc } from '../../format/time.ts';
import { hasNoCompletion, outcomeOf, RequestStatus } from '../../requests/outcome.tsx';
import type { Scope } from '../../state/account.ts';
import { AppliedLimits, CostLines, Ids, ModelInput, ReceiptSection, Waterfall } from './receipt-parts.tsx';

type Receipt = ResponseOf<'getReceipt'>;

/** Refetch interval of a running request, in milliseconds. */
const RUNNING_MS = 1000;

interface ReceiptDialogProps {
  /** Null: closed. */
  id: string | null;
  scope: Scope;
  /** Opens the requests before and after this one in the list; null: there is none. */
  onPrevious: (() => void) | null;
  onNext: (() => void) | null;
  onClose: () => void;
}

/** The receipt of a request, as a drawer next to the list. */
export function ReceiptDialog({ id, scope, onPrevious, onNext, onClose }: ReceiptDialogProps) {
  // Keeps the content during the closing animation.
  const [shown, setShown] = useState(id);
  if (id !== null && id !== shown) setShown(id);
  useArrowKeys(id !== null, onPrevious, onNext);
  return (
    <Dialog
      side
      open={id !== null}
      onClose={onClose}
      title="Request"
      tools={
        (onPrevious !== null || onNext !== null) && (
          <>
            <IconButton
              label="Previous request"
              disabled={onPrevious === null}
              onClick={() => onPrevious?.()}
            >
              <ChevronLeft />
            </IconButton>
            <IconButton label="Next request" disabled={onNext === null} onClick={() => onNext?.()}>
              <ChevronRight />
            </IconButton>
          </>
        )
      }
    >
      {shown !== null && <Body id={shown} scope={scope} />}
    </Dialog>
  );
}

/** Lets the left and right arrow keys move in the list. */
function useArrowKeys(active: boolean, onLeft: (() => void) | null, onRight: (() => void) | null): void {
  useEffect(() => {
    if (!active) return;
    const onKey = (event: KeyboardEvent) => {
      const move = { ArrowLeft: onLeft, ArrowRight: onRight }[event.key] ?? null;
      const isModified = event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;
      const target = event.target as Element | null;
      if (move === null || isModified || target?.closest('input, textarea, [role="tab"], [role="menu"]'))
        return;
      move();
    };
    // The dialog stops the propagation of these keys.
    addEventListener('keydown', onKey, true);
    return () => removeEventListener('keydown', onKey, true);
  });
}

function Body({ id, scope }: { id: string; scope: Scope }) {
  const read = useRead(
    'getReceipt',
    { params: { id } },
    { everyMs: (receipt) => (receipt?.request.state === 'open' ? RUNNING_MS : false) },
  );
  return (
    <Loaded query={read} loading={<SkeletonRows rows={8} />}>
      {(receipt) => <Receipt receipt={receipt} scope={scope} />}
    </Loaded>
  );
}

function Receipt({ receipt, scope }: { receipt: Receipt; scope: Scope }) {
  const { request, cost, limits } = receipt;
  const generates = !hasNoCompletion(request);
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
          {request.finish_reason !== null && <>Finish reason: {request.finish_reason}. </>}
          {outcomeOf(request).meaning}
        </p>
      </div>
      <Waterfall receipt={receipt} />
      <ReceiptSection title="Tokens">
        <DetailList
          details={[
            { label: 'Prompt', value: whole(request.prompt_tokens) },
            generates && { label: 'Prompt (cached)', value: whole(request.cached_tokens) },
            generates && { label: 'Completion', value: whole(request.completion_tokens) },
            request.reasoning_tokens > 0 && {
              label: 'Completion (reasoning)',
              value: whole(request.reasoning_tokens),
            },
            { label: 'Source', value: usageSource(receipt) },
          ]}
        />
        {receipt.cache_miss !== null && (
          <div className="mt-3">
            <Notice>{receipt.cache_miss}</Notice>
          </div>
        )}
      </ReceiptSection>
      <CostLines request={request} cost={cost} />
      {receipt.model_input !== null && <ModelInput input={receipt.model_input} />}
      <AppliedLimits plan={request.plan} limits={limits} />
      <Details receipt={receipt} scope={scope} />
      <Ids request={request} />
      <Notice>Prompts and completions are never stored, so they cannot be shown here.</Notice>
    </div>
  );
}

function usageSource({ request, interrupted }: Receipt): string {
  if (request.usage_source === 'engine') return 'Engine';
  if (request.usage_source === 'clamped') return 'Capped: the engine reported more tokens than possible';
  if (request.usage_source === 'estimated') {
    return interrupted ? 'Estimate from the last checkpoint' : 'Estimate: not reported by the engine';
  }
  return request.state === 'open' ? 'Available when finished' : 'None: nothing was generated';
}

function Details({ receipt, scope }: { receipt: Receipt; scope: Scope }) {
  const { request, retries } = receipt;
  return (
    <ReceiptSection title="Details">
      <DetailList
        details={[
          scope.all && { label: 'Account', value: request.account_name ?? request.account_id },
          { label: 'Key', value: request.key_name ?? request.key_id },
          { label: 'Client', value: request.client ?? 'Not recorded' },
          {
            label: 'Protocol',
            value: `${request.endpoint}, ${request.streamed ? 'streamed' : 'not streamed'}`,
          },
          {
            label: 'State',
            value: { open: 'Running', settled: 'Finished', interrupted: 'Interrupted' }[request.state],
          },
          { label: 'HTTP status', value: request.http_status ?? '—' },
          {
            label: 'Delivered',
            value: { true: 'Yes', false: 'No, client disconnected', null: 'Unknown' }[`${request.delivered}`],
          },
          { label: 'Replica', value: request.replica ?? '—' },
          {
            label: 'Attempts',
            value:
              retries === 0
                ? whole(request.attempts)
                : `${whole(request.attempts)} (${whole(retries)} failed)`,
          },
          request.continued_after !== null && {
            label: 'Continued after',
            value: `${whole(request.continued_after)} tokens`,
          },
        ]}
      />
    </ReceiptSection>
  );
}
