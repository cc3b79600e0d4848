import { Search, SearchX } from 'lucide-react';
import { useMemo, type ReactNode } from 'react';
import { Redirect } from 'wouter';
import { useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { classNames } from '../../components/class-names.ts';
import { INPUT } from '../../components/input.ts';
import { EmptyState, ErrorState, SkeletonRows } from '../../components/states.tsx';
import { useHrefWithAccount } from '../../state/account.ts';
import type { Scope } from '../../state/scope.ts';
import type { Request } from '../../requests/outcome.tsx';

interface FindFieldProps {
  /** The current search. */
  value: string;
  onFind: (id: string) => void;
}

/** Searches for a request id or a client request id on Enter. */
export function FindField({ value, onFind }: FindFieldProps) {
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
      <Search
        className="pointer-events-none absolute top-1/2 left-2.5 size-3.5 -translate-y-1/2 text-ink-3"
        aria-hidden="true"
      />
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
export function Found({ scope, id, receiptOf, onClear, children }: FoundProps) {
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
