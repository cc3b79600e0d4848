import { ChevronLeft, ChevronRight, X } from 'lucide-react';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { IconButton } from '../../components/button.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { DetailList, Mono } from '../../components/detail-list.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { areSingleKeysOn, OPEN_DIALOG, takesKeys } from '../../components/single-keys.ts';
import { Loaded, Notice, SkeletonRows } from '../../components/states.tsx';
import { whole } from '../../format/number.ts';
import { exactTime, utc } from '../../format/time.ts';
import { hasNoCompletion, outcomeOf, RequestStatus } from '../../requests/outcome.tsx';
import type { Scope } from '../../state/account.ts';
import { AppliedLimits, CostLines, Ids, ModelInput, ReceiptSection, Waterfall } from './receipt-parts.tsx';
import { refusedKey, type Refusal } from './timeline.ts';

type Receipt = ResponseOf<'getReceipt'>;

/** Refetch interval of a running request, in milliseconds. */
const RUNNING_MS = 1000;

interface ReceiptPanelProps {
  /** Whether it is beside the list. Otherwise it is a dialog. */
  isBeside: boolean;
  /** ID of a request, or of `refusal`. Null: closed. */
  id: string | null;
  /** The refused requests with this ID; null: it is a request. */
  refusal: Refusal | null;
  scope: Scope;
  /** Opens the entries before and after this one in the list; null: there is none. */
  onPrevious: (() => void) | null;
  onNext: (() => void) | null;
  onClose: () => void;
}

/** The receipt of a request, or what was refused: beside the list on wide windows, else as a drawer over it. */
export function ReceiptPanel(props: ReceiptPanelProps) {
  const { isBeside, id, refusal, scope, onPrevious, onNext, onClose } = props;
  // Keeps the content during the closing animation.
  const [shown, setShown] = useState({ id, refusal });
  if (id !== null && (id !== shown.id || refusal !== shown.refusal)) setShown({ id, refusal });
  useMoveKeys(props);
  const title = shown.refusal === null ? 'Request' : 'Refused requests';
  const tools = (onPrevious !== null || onNext !== null) && (
    <>
      <IconButton label="Previous request" disabled={onPrevious === null} onClick={() => onPrevious?.()}>
        <ChevronLeft />
      </IconButton>
      <IconButton label="Next request" disabled={onNext === null} onClick={() => onNext?.()}>
        <ChevronRight />
      </IconButton>
    </>
  );
  const body = shown.refusal ? (
    <RefusalDetails refusal={shown.refusal} scope={scope} />
  ) : (
    shown.id !== null && <Body id={shown.id} scope={scope} />
  );
  if (!isBeside) {
    return (
      <Dialog side open={id !== null} onClose={onClose} title={title} tools={tools}>
        {body}
      </Dialog>
    );
  }
  return (
    id !== null && (
      <Pane id={id} title={title} tools={tools} onClose={onClose}>
        {body}
      </Pane>
    )
  );
}

interface PaneProps {
  id: string;
  title: string;
  tools: ReactNode;
  onClose: () => void;
  children: ReactNode;
}

/** A column beside the list. Takes the focus when it opens, and gives it back when it closes. */
function Pane({ id, title, tools, onClose, children }: PaneProps) {
  const pane = useRef<HTMLElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    pane.current?.focus({ preventScroll: true });
    return () => {
      // Unless the focus is elsewhere by now.
      if (document.activeElement === document.body && opener instanceof HTMLElement)
        opener.focus({ preventScroll: true });
    };
  }, []);
  // The open row is that of the ID.
  // oxlint-disable-next-line react/exhaustive-effect-dependencies
  useEffect(() => scrollToOpenRow(), [id]);
  return (
    <section
      ref={pane}
      aria-label={title}
      // Lets keyboard users scroll it.
      tabIndex={0}
      className="sticky top-4 max-h-[calc(100dvh-2rem)] w-[27rem] shrink-0 overflow-y-auto rounded-xl border border-line bg-surface focus-visible:-outline-offset-2"
    >
      <header className="sticky top-0 z-10 flex items-center justify-between gap-4 bg-surface px-5 py-3">
        <h2 className="text-base font-semibold tracking-tight">{title}</h2>
        <div className="-mr-2 flex gap-1">
          {tools}
          <IconButton label="Close" onClick={onClose}>
            <X />
          </IconButton>
        </div>
      </header>
      <div className="px-5 pb-4">{children}</div>
    </section>
  );
}

function scrollToOpenRow(): void {
  document.querySelector('tr[aria-current]')?.scrollIntoView({ block: 'nearest' });
}

/** Lets J and K, and in a receipt the right and left arrow keys, move in the list, and Escape close the pane. */
function useMoveKeys({ isBeside, id, onPrevious, onNext, onClose }: ReceiptPanelProps): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const { key, target } = event;
      const isModified = event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;
      // The dialog of the receipt, if it is one, is not above itself.
      const above = document.querySelectorAll(OPEN_DIALOG).length - (!isBeside && id !== null ? 1 : 0);
      if (isModified || takesKeys(target) || above > 0) return;
      if (key === 'Escape' && isBeside && id !== null) return onClose();
      const isSingle = areSingleKeysOn();
      // In a group of toggles, the arrow keys move between them.
      const isArrow = id !== null && (target as Element).closest('[role="group"]') === null;
      const move = {
        j: isSingle && onNext,
        k: isSingle && onPrevious,
        ArrowRight: isArrow && onNext,
        ArrowLeft: isArrow && onPrevious,
      }[key];
      if (move) move();
    };
    // The dialog stops the propagation of these keys.
    addEventListener('keydown', onKey, true);
    return () => removeEventListener('keydown', onKey, true);
  });
}

/** What is known of refused requests, which have no receipts. */
function RefusalDetails({ refusal, scope }: { refusal: Refusal; scope: Scope }) {
  const { account_id: accountId, account_name: account, code, param, count, last_at: at } = refusal;
  return (
    <div className="space-y-6 pb-2">
      <p className="text-sm break-words">
        <CodeText text={refusal.message} />
      </p>
      <DetailList
        details={[
          { label: 'Error', value: <Mono>{code}</Mono> },
          param !== null && { label: 'Field', value: <Mono>{param}</Mono> },
          scope.all && { label: 'Account', value: account ?? accountId ?? '—' },
          { label: 'Key', value: refusedKey(refusal) },
          { label: 'Requests in this hour (UTC)', value: whole(count) },
          { label: 'Last refused', value: exactTime(at) },
        ]}
      />
      <Notice>
        Refused requests cost nothing. They are counted by key and error for 7 days, and have no receipts.
      </Notice>
    </div>
  );
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
