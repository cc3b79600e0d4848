import { ListTree, Search, SearchX } from 'lucide-react';
import { useEffect, useMemo, useRef, useState, type ReactNode } from 'react';
import { Redirect, useLocation, useParams } from 'wouter';
import { orToast } from '../../api/act.ts';
import { useLog } from '../../api/log.ts';
import { useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Switch } from '../../components/choices.tsx';
import { classNames } from '../../components/class-names.ts';
import { useToday } from '../../components/date-range-days.ts';
import { TimeFilter } from '../../components/date-range.tsx';
import { INPUT } from '../../components/input.ts';
import { NoAccount } from '../../components/no-account.tsx';
import { Page } from '../../components/page.tsx';
import { ScopeSwitch } from '../../components/scope-switch.tsx';
import { EmptyState, ErrorState, Loaded, SkeletonRows } from '../../components/states.tsx';
import { ListFooter, Table, type Rest } from '../../components/table.tsx';
import { Tabs } from '../../components/tabs.tsx';
import { UpdatedAt } from '../../components/updated-at.tsx';
import { KeyFilter, ModelFilter, MoreFilters, StatusFilter } from '../../requests/filter-selects.tsx';
import { filtersOf, isNarrowed, NO_FILTERS, toQuery, type Filters } from '../../requests/filters.ts';
import { logColumns } from '../../requests/log-columns.tsx';
import { NoRequests } from '../../requests/no-requests.tsx';
import type { Request } from '../../requests/outcome.tsx';
import { useHrefWithAccount, useScope, type Scope } from '../../state/account.ts';
import { useQueryState } from '../../state/url-query.ts';
import { ReceiptDialog } from './receipt-dialog.tsx';
import { Refused } from './refused.tsx';

const REFUSED = 'refused';

/** The request log. A row opens its receipt in a drawer. */
export default function RequestsPage() {
  const scope = useScope();
  const { id } = useParams<{ id?: string }>();
  const [query, change] = useQueryState();
  const [, navigate] = useLocation();
  const href = useHrefWithAccount();
  const filters = filtersOf(query);
  const find = query.get('find');
  const live = query.get('live') === '1';
  const receiptOf = useReceiptPath();
  const [listed, setListed] = useState<Listed>({ ids: [] });
  const move = useMove(listed, id, (to) =>
    // The entry before stays the same.
    navigate(href(receiptOf(to)), { replace: true, state: history.state as unknown }),
  );
  if (scope.account === null && !scope.all) return <NoAccount title="Requests" icon={ListTree} />;
  const rows = (requests: readonly Request[], rest?: Rest<Request>) => (
    <Rows
      scope={scope}
      requests={requests}
      rest={rest}
      openId={id}
      receiptOf={receiptOf}
      onListed={setListed}
    />
  );
  const accepted = (
    <>
      <Toolbar scope={scope} filters={filters} />
      <Card flush>
        {find === null ? (
          <Log scope={scope} filters={filters} live={live}>
            {rows}
          </Log>
        ) : (
          <Found scope={scope} id={find} receiptOf={receiptOf} onClear={() => change({ find: null })}>
            {rows}
          </Found>
        )}
      </Card>
    </>
  );
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
      <Tabs
        label="Requests"
        value={query.get('view') === REFUSED ? REFUSED : 'accepted'}
        onChange={(view) => change({ view: view === REFUSED ? REFUSED : null })}
        tabs={[
          { value: 'accepted', label: 'Accepted', content: <div className="pt-4">{accepted}</div> },
          {
            value: REFUSED,
            label: 'Refused',
            content: (
              <div className="pt-4">
                <Refused scope={scope} live={live} />
              </div>
            ),
          },
        ]}
      />
      <ReceiptDialog
        id={id ?? null}
        scope={scope}
        {...move}
        onClose={() => {
          if (isFromList(history.state)) history.back();
          else navigate(href(`/requests?${query}`), { replace: true });
        }}
      />
    </Page>
  );
}

/** The requests in the list, in its order. */
interface Listed {
  ids: readonly string[];
  rest?: Rest<Request> | undefined;
}

/** Returns functions that open the requests next to the open one in the list. Loads more at its end. */
function useMove({ ids, rest }: Listed, openId: string | undefined, open: (id: string) => void) {
  const opened = useRef(openId);
  useEffect(() => {
    opened.current = openId;
  });
  const at = openId === undefined ? -1 : ids.indexOf(openId);
  const [previous, next] = at === -1 ? [] : [ids[at - 1], ids[at + 1]];
  const openNext = async () => {
    if (next !== undefined || rest === undefined) return next !== undefined && open(next);
    const rows = await rest.loadUpTo(ids.length + 1, new AbortController().signal);
    const loaded = rows[rows.findIndex(({ id }) => id === openId) + 1];
    // Not if another request was opened, or this one closed, in the meantime.
    if (loaded !== undefined && opened.current === openId) open(loaded.id);
  };
  const hasNext = next !== undefined || (at !== -1 && rest?.hasMore === true);
  return {
    onPrevious: previous === undefined ? null : () => open(previous),
    onNext: hasNext ? () => void orToast(openNext()) : null,
  };
}

/** Returns a function that builds receipt paths, which keep the filters of the list but not the search. */
function useReceiptPath(): (id: string) => string {
  const [query] = useQueryState();
  return (id) => {
    const kept = new URLSearchParams(query);
    kept.delete('find');
    return kept.size > 0 ? `/requests/${id}?${kept}` : `/requests/${id}`;
  };
}

/** The state of a receipt in the history whose entry before is the list. */
const FROM_LIST = { fromList: true };

const isFromList = (state: unknown): boolean =>
  typeof state === 'object' && state !== null && 'fromList' in state;

function Toolbar({ scope, filters }: { scope: Scope; filters: Filters }) {
  const [query, change] = useQueryState();
  // The result of a search is not filtered, so a filter ends the search.
  const filter: typeof change = (changes) => change({ ...changes, find: null });
  return (
    <div className="mb-4 flex flex-wrap items-center gap-2">
      <TimeFilter value={filters} onChange={({ range, from, to }) => filter({ range, from, to })} />
      <StatusFilter value={filters.status} onChange={(status) => filter({ status })} />
      <ModelFilter scope={scope} value={filters.model} onChange={(model) => filter({ model })} />
      <KeyFilter scope={scope} value={filters.key} onChange={(key) => filter({ key })} />
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

interface LogProps {
  scope: Scope;
  filters: Filters;
  live: boolean;
  children: (requests: readonly Request[], rest: Rest<Request>) => ReactNode;
}

function Log({ scope, filters, live, children }: LogProps) {
  const log = useLog({ ...scope.query, ...toQuery(filters, useToday()) }, live);
  const loading = <SkeletonRows rows={12} />;
  return (
    <>
      <div className="border-b border-line px-4 py-1 sm:px-5">
        <UpdatedAt
          atMs={log.updatedAt}
          busy={log.isRefreshing}
          error={log.refreshError}
          onRefresh={live ? undefined : log.refresh}
        />
      </div>
      <Loaded query={log} loading={loading}>
        {(requests) =>
          requests.length === 0 && log.isFetching ? (
            loading
          ) : (
            <div className={log.isStale ? 'opacity-60' : ''} aria-busy={log.isStale}>
              {requests.length > 0 ? (
                children(requests, log)
              ) : (
                <NoMatch filters={filters} hasMore={log.hasMore} />
              )}
              {(requests.length > 0 || log.hasMore) && (
                <ListFooter
                  shown={requests.length}
                  what={requests.length === 1 ? 'request' : 'requests'}
                  rest={log}
                />
              )}
            </div>
          )
        }
      </Loaded>
    </>
  );
}

interface RowsProps {
  scope: Scope;
  requests: readonly Request[];
  rest: Rest<Request> | undefined;
  openId: string | undefined;
  receiptOf: (id: string) => string;
  onListed: (listed: Listed) => void;
}

function Rows({ scope, requests, rest, openId, receiptOf, onListed }: RowsProps) {
  const [, navigate] = useLocation();
  const href = useHrefWithAccount();
  const { hasMore, isReadingMore, moreError } = rest ?? {};
  useEffect(() => {
    onListed({ ids: requests.map(({ id }) => id), rest });
    // The functions of the list are the same.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [requests, hasMore, isReadingMore, moreError, onListed]);
  return (
    <Table
      label="Requests"
      id="requests"
      {...(rest !== undefined && { rest })}
      columns={logColumns(requests, {
        isAll: scope.all,
        receipt: receiptOf,
        state: FROM_LIST,
      })}
      rows={requests}
      keyOf={({ id }) => id}
      onOpen={({ id }) => navigate(href(receiptOf(id)), { state: FROM_LIST })}
      isOpen={({ id }) => id === openId}
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
  /** Returns the path of the receipt of a request. */
  receiptOf: (id: string) => string;
  onClear: () => void;
  /** Renders requests that share a client request id. */
  children: (requests: readonly Request[]) => ReactNode;
}

/** The result of a search: the receipt of a single match, else a list. */
function Found({ scope, id, receiptOf, onClear, children }: FoundProps) {
  const href = useHrefWithAccount();
  const isRequestId = UUID.test(id);
  const byId = useRead('getReceipt', { params: { id: id.toLowerCase() } }, { enabled: isRequestId });
  const isClientId = !isRequestId || byId.error?.status === 404;
  const byClientId = useRead(
    'listReceipts',
    { query: { client_request_id: id, ...scope.query } },
    { enabled: isClientId && !scope.all },
  );
  // The same array in each render, because the list reports its rows when they change.
  const ofClientId = useMemo(() => byClientId.data?.data.map(({ request }) => request), [byClientId.data]);
  if (byId.data) return <Redirect replace to={href(receiptOf(byId.data.request.id))} />;
  const fault = isClientId ? byClientId.error : byId.error;
  // A 400 means that the id is not a valid client request id.
  if (fault !== null && fault.status !== 400) {
    return <ErrorState error={fault} retry={() => void (isClientId ? byClientId : byId).refetch()} />;
  }
  const found = isClientId && (scope.all || fault !== null) ? [] : ofClientId;
  if (found === undefined) return <SkeletonRows />;
  const [first, ...others] = found;
  if (first !== undefined && others.length === 0) {
    return <Redirect replace to={href(receiptOf(first.id))} />;
  }
  if (first !== undefined) return children(found);
  return (
    <EmptyState
      icon={SearchX}
      title="No request with this ID"
      action={<Button onClick={onClear}>Show all requests</Button>}
    >
      {scope.all
        ? 'Select an account to search by client request ID.'
        : 'Enter the x-request-id of a response, or the x-client-request-id that was sent. Refused requests are on the Refused tab, without their IDs.'}
    </EmptyState>
  );
}
