import { ListTree, Search, SearchX } from 'lucide-react';
import { useEffect, useRef } from 'react';
import { Redirect, useLocation, useParams } from 'wouter';
import { orToast } from '../../api/act.ts';
import { useLog } from '../../api/log.ts';
import { both, useRead, type QueryState } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Switch } from '../../components/choices.tsx';
import { classNames } from '../../components/class-names.ts';
import { useToday } from '../../components/date-range-days.ts';
import { TimeFilter } from '../../components/date-range.tsx';
import { fold, rowOf, useFolds } from '../../components/fold.ts';
import { INPUT } from '../../components/input.ts';
import { NoAccount } from '../../components/no-account.tsx';
import { Page } from '../../components/page.tsx';
import { ScopeSwitch } from '../../components/scope-switch.tsx';
import { EmptyState, ErrorState, Loaded, SkeletonRows } from '../../components/states.tsx';
import { changedRest, ListFooter, Table, useWindowWidths, type Rest } from '../../components/table.tsx';
import { UpdatedAt } from '../../components/updated-at.tsx';
import { KeyFilter, ModelFilter, MoreFilters, StatusFilter } from '../../requests/filter-selects.tsx';
import {
  canBeRefused,
  filtersOf,
  isNarrowed,
  NO_FILTERS,
  toQuery,
  type Filters,
} from '../../requests/filters.ts';
import { NoRequests } from '../../requests/no-requests.tsx';
import type { Request } from '../../requests/outcome.tsx';
import { useHrefWithAccount, useScope, type Scope } from '../../state/account.ts';
import { useQueryState } from '../../state/url-query.ts';
import { barsNote, Histogram, useBars, type Bars } from './histogram.tsx';
import { ReceiptPanel } from './receipt-panel.tsx';
import { timelineColumns } from './timeline-columns.tsx';
import { countOf, errorOf, isRefusedId, timelineOf, type Entry } from './timeline.ts';

/** The requests as a timeline. A row opens its receipt beside the list, or in a drawer. */
export default function RequestsPage() {
  const scope = useScope();
  const { id } = useParams<{ id?: string }>();
  const [query, change] = useQueryState();
  const filters = filtersOf(query);
  // The search ends when one of its requests is opened.
  const find = id === undefined ? query.get('find') : null;
  const live = query.get('live') === '1';
  if (scope.account === null && !scope.all) return <NoAccount title="Requests" icon={ListTree} />;
  return (
    <Page
      wide
      title="Requests"
      hint="Accepted and refused requests. Prompts and completions are never stored."
      actions={
        <>
          <ScopeSwitch />
          <Switch checked={live} onChange={(on) => change({ live: on ? '1' : null })}>
            Live
          </Switch>
        </>
      }
    >
      {find === null ? (
        <Timeline scope={scope} filters={filters} live={live} openId={id ?? null} />
      ) : (
        <>
          <Toolbar scope={scope} filters={filters} />
          <Card flush>
            <Found scope={scope} id={find} onClear={() => change({ find: null })} />
          </Card>
        </>
      )}
    </Page>
  );
}

/** Returns functions that open the entries next to the open one in the list. Loads more at its end. */
function useMove(
  entries: readonly Entry[],
  rest: Rest<Entry>,
  openId: string | null,
  open: (id: string) => void,
) {
  const opened = useRef(openId);
  useEffect(() => {
    opened.current = openId;
  });
  const at = entries.findIndex(({ id }) => id === openId);
  const isListed = openId === null || at !== -1;
  const [previous, next] = isListed ? [entries[at - 1], entries[at + 1]] : [];
  const openNext = async () => {
    if (next !== undefined) return open(next.id);
    const rows = await rest.loadUpTo(entries.length + 1, new AbortController().signal);
    const loaded = rows[rows.findIndex(({ id }) => id === openId) + 1];
    // Not if another request was opened, or this one closed, in the meantime.
    if (loaded !== undefined && opened.current === openId) open(loaded.id);
  };
  return {
    onPrevious: previous === undefined ? null : () => open(previous.id),
    onNext: next !== undefined || (at !== -1 && rest.hasMore) ? () => void orToast(openNext()) : null,
  };
}

/** Returns how links open the details of an entry. They replace those that are open (`isOpen`) in the history. */
function useOpen(isOpen: boolean) {
  const [, navigate] = useLocation();
  const [query] = useQueryState();
  const href = useHrefWithAccount();
  // Keeps the filters of the list, but not the search.
  const kept = new URLSearchParams(query);
  kept.delete('find');
  const pathOf = (id: string) => (kept.size > 0 ? `/requests/${id}?${kept}` : `/requests/${id}`);
  const history = isOpen
    ? { state: window.history.state as object, replace: true }
    : { state: FROM_LIST, replace: false };
  return { pathOf, history, open: (id: string) => navigate(href(pathOf(id)), history) };
}

/** The state of a receipt in the history whose entry before is the list. */
const FROM_LIST = { fromList: true };

const isFromList = (state: unknown): boolean =>
  typeof state === 'object' && state !== null && 'fromList' in state;

interface ToolbarProps {
  scope: Scope;
  filters: Filters;
  /** What is counted beside the choices; not given: nothing. */
  bars?: Bars;
}

function Toolbar({ scope, filters, bars }: ToolbarProps) {
  const [query, change] = useQueryState();
  // The result of a search is not filtered, so a filter ends the search.
  const filter: typeof change = (changes) => change({ ...changes, find: null });
  const select = (name: 'status' | 'model' | 'key') => ({
    scope,
    value: filters[name],
    onChange: (value: string | null) => filter({ [name]: value }),
    counted: bars?.counted,
  });
  return (
    <div className="mb-4 flex flex-wrap items-center gap-2">
      <TimeFilter value={filters} onChange={({ range, from, to }) => filter({ range, from, to })} />
      <StatusFilter {...select('status')} counts={bars?.statuses} />
      <ModelFilter {...select('model')} />
      <KeyFilter {...select('key')} />
      <MoreFilters scope={scope} filters={filters} onChange={filter} />
      {isNarrowed(filters) && <ClearButton />}
      <div className="flex w-full items-center gap-2 sm:ml-auto sm:w-auto">
        <FindField value={query.get('find') ?? ''} onFind={(id) => change({ find: id })} />
      </div>
    </div>
  );
}

function ClearButton() {
  const [, change] = useQueryState();
  return (
    <Button kind="quiet" size="small" onClick={() => change({ ...NO_FILTERS, find: null })}>
      Clear filters
    </Button>
  );
}

interface TimelineProps {
  scope: Scope;
  filters: Filters;
  live: boolean;
  /** ID of the entry whose details are shown; null: none. */
  openId: string | null;
}

/** Refetch interval of refused requests in a live list, in milliseconds. */
const LIVE_MS = 5000;
/** Maximum number of counts of refused requests in a response. */
const MAX_REFUSALS = 500;
/** Refused requests are kept for 7 days. */
const KEPT_HOURS = 168;

function Timeline({ scope, filters, live, openId }: TimelineProps) {
  const [query] = useQueryState();
  const [, navigate] = useLocation();
  const href = useHrefWithAccount();
  const isBeside = useWindowWidths().has('xl');
  const asked = toQuery(filters, useToday());
  const isLogged = filters.status !== 'refused';
  const log = useLog({ ...scope.query, ...asked }, { live, enabled: isLogged });
  const isRefusable = canBeRefused(filters);
  const { key_id, from, to, error_code } = asked;
  const refusals = useRead(
    'listRefusals',
    { query: { ...scope.query, key_id, from, to, hours: KEPT_HOURS, by: 'hour' } },
    { enabled: isRefusable, keep: isRefusable, ...(live && { everyMs: LIVE_MS }) },
  );
  const bars = useBars(scope, filters, live);

  const refused = (isRefusable && refusals.data?.data) || [];
  const shown = refused.filter(({ code }) => error_code === undefined || code === error_code);
  const merge = (requests: readonly Request[], hasMore: boolean) => timelineOf(requests, shown, hasMore);
  const entries = merge(log.data ?? [], log.hasMore);
  const rest: Rest<Entry> = {
    ...log,
    loadUpTo: async (count, signal) => {
      const loaded = await log.loadUpTo(count, signal);
      return merge(loaded, loaded.length >= count);
    },
  };
  const opened = entries.find(({ id }) => id === openId);
  const isOpen = opened !== undefined || (openId !== null && !isRefusedId(openId));
  const links = useOpen(isOpen);
  const move = useMove(entries, rest, openId, links.open);
  const loading = <SkeletonRows rows={12} />;
  const read: QueryState<unknown> = !isLogged ? refusals : isRefusable ? both(log, refusals) : log;
  return (
    <>
      <Toolbar scope={scope} filters={filters} bars={bars} />
      <div className="flex items-start gap-4">
        <Card flush className="flex-1">
          <div className="flex flex-wrap items-center justify-between gap-x-4 border-b border-line px-4 py-1.5 text-xs text-ink-3 sm:px-5">
            {barsNote(bars)}
            <UpdatedAt
              atMs={isLogged ? log.updatedAt : refusals.dataUpdatedAt}
              busy={log.isRefreshing || refusals.isFetching}
              error={log.refreshError ?? refusals.error}
              onRefresh={
                live
                  ? undefined
                  : () => {
                      if (isLogged) log.refresh();
                      if (isRefusable) void refusals.refetch();
                      void bars.query.refetch();
                    }
              }
            />
          </div>
          <Histogram bars={bars} />
          <Loaded query={read} loading={loading}>
            {() =>
              entries.length === 0 && log.isFetching ? (
                loading
              ) : (
                <div
                  className={log.isStale || refusals.isPlaceholderData ? 'opacity-60' : ''}
                  aria-busy={log.isStale || refusals.isPlaceholderData}
                >
                  {entries.length > 0 ? (
                    <Rows {...{ scope, entries, rest, openId, links }} isNarrow={isBeside && isOpen} />
                  ) : (
                    <NoMatch filters={filters} hasMore={log.hasMore} />
                  )}
                  {refused.length >= MAX_REFUSALS && (
                    <p className="border-t border-line px-4 py-2 text-xs text-ink-3 sm:px-5">
                      Only the latest refused requests are shown. Choose a shorter time to see earlier ones.
                    </p>
                  )}
                  {(entries.length > 0 || log.hasMore) && (
                    <ListFooter
                      shown={countOf(entries)}
                      what={countOf(entries) === 1 ? 'request' : 'requests'}
                      rest={log}
                    />
                  )}
                </div>
              )
            }
          </Loaded>
        </Card>
        <ReceiptPanel
          isBeside={isBeside}
          id={isOpen ? openId : null}
          refusal={opened?.refusal ?? null}
          scope={scope}
          {...move}
          onClose={() => {
            if (isFromList(window.history.state)) window.history.back();
            else navigate(href(`/requests?${query}`), { replace: true });
          }}
        />
      </div>
    </>
  );
}

interface RowsProps {
  scope: Scope;
  entries: readonly Entry[];
  rest?: Rest<Entry>;
  openId?: string | null;
  /** Leaves out what has no room beside a receipt. */
  isNarrow?: boolean;
  links: ReturnType<typeof useOpen>;
}

function Rows({ scope, entries, rest, openId = null, isNarrow = false, links }: RowsProps) {
  const { isExpanded, toggle } = useFolds<Entry>();
  const { open, ...paths } = links;
  return (
    <Table
      label="Requests"
      id="requests"
      rest={rest && changedRest(rest, (all) => all.map(rowOf))}
      columns={timelineColumns(entries, {
        isAll: scope.all,
        isNarrow,
        isExpanded,
        onToggle: toggle,
        ...paths,
      })}
      rows={fold(entries, errorOf, isExpanded)}
      csvRows={entries.map(rowOf)}
      keyOf={({ entry: { id }, group }) => (group === null ? id : `${id} group`)}
      onOpen={({ entry: { id }, group }) => (group === null ? open(id) : toggle(group))}
      isOpen={({ entry, group }) => (group ?? [entry]).some(({ id }) => id === openId)}
    />
  );
}

function NoMatch({ filters, hasMore }: { filters: Filters; hasMore: boolean }) {
  if (isNarrowed(filters)) {
    return (
      <EmptyState icon={ListTree} title="No matching requests" action={<ClearButton />}>
        {hasMore
          ? 'Older requests have not been searched yet.'
          : 'Change or clear the filters to see more requests.'}
      </EmptyState>
    );
  }
  return (
    <NoRequests icon={ListTree} title="No requests yet">
      Requests appear here with their tokens, timing and cost. Prompts and completions are never stored.
    </NoRequests>
  );
}

interface FindFieldProps {
  /** The current search. */
  value: string;
  onFind: (id: string) => void;
}

/** Searches for a request id or a client request id on Enter. */
function FindField({ value, onFind }: FindFieldProps) {
  return (
    <form
      role="search"
      className="relative w-full min-w-0 sm:w-72"
      onSubmit={(event) => {
        event.preventDefault();
        const text = new FormData(event.currentTarget).get('id');
        onFind(typeof text === 'string' ? text.trim() : '');
      }}
    >
      <Search className="pointer-events-none absolute top-1/2 left-2.5 size-3.5 -translate-y-1/2 text-ink-3" />
      <input
        // Resets the field when the URL changes.
        key={value}
        name="id"
        type="search"
        enterKeyHint="search"
        autoComplete="off"
        spellCheck={false}
        maxLength={512}
        defaultValue={value}
        aria-label="Find by request ID or client request ID"
        placeholder="Request ID or client request ID"
        className={classNames(INPUT, 'h-8 rounded-md pl-8 text-xs')}
      />
    </form>
  );
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

interface FoundProps {
  scope: Scope;
  /** A request id or client request id. */
  id: string;
  onClear: () => void;
}

/** The result of a search: the receipt of a single match, else a list. */
function Found({ scope, id, onClear }: FoundProps) {
  const links = useOpen(false);
  const href = useHrefWithAccount();
  const isRequestId = UUID.test(id);
  const byId = useRead('getReceipt', { params: { id: id.toLowerCase() } }, { enabled: isRequestId });
  const isClientId = !isRequestId || byId.error?.status === 404;
  const byClientId = useRead(
    'listReceipts',
    { query: { client_request_id: id, ...scope.query } },
    { enabled: isClientId && !scope.all },
  );
  const ofClientId = byClientId.data?.data.map(({ request }) => request);
  if (byId.data) return <Redirect replace to={href(links.pathOf(byId.data.request.id))} />;
  const fault = isClientId ? byClientId.error : byId.error;
  // A 400 means that the id is not a valid client request id.
  if (fault !== null && fault.status !== 400) {
    return <ErrorState error={fault} retry={() => void (isClientId ? byClientId : byId).refetch()} />;
  }
  const found = isClientId && (scope.all || fault !== null) ? [] : ofClientId;
  if (found === undefined) return <SkeletonRows />;
  const [first, ...others] = found;
  if (first !== undefined && others.length === 0) {
    return <Redirect replace to={href(links.pathOf(first.id))} />;
  }
  if (first !== undefined) return <Rows scope={scope} entries={timelineOf(found, [], false)} links={links} />;
  return (
    <EmptyState
      icon={SearchX}
      title="No request with this ID"
      action={<Button onClick={onClear}>Show all requests</Button>}
    >
      {scope.all
        ? 'Select an account to search by client request ID.'
        : 'Enter the x-request-id of a response, or the x-client-request-id that was sent. Refused requests have no IDs.'}
    </EmptyState>
  );
}
