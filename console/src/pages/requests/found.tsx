import { SearchX } from 'lucide-react';
import type { ReactNode } from 'react';
import { Redirect } from 'wouter';
import { useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { EmptyState, ErrorState, SkeletonRows } from '../../components/states.tsx';
import { useHrefWithAccount } from '../../state/account.ts';
import type { Scope } from '../../state/scope.ts';
import type { Request } from './outcome.tsx';

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
  if (byId.data) return <Redirect replace to={href(receiptOf(byId.data.request.id))} />;
  const fault = isClientId ? byClientId.error : byId.error;
  // A 400 means that the id is not a valid client request id.
  if (fault !== null && fault.status !== 400) {
    return <ErrorState error={fault} retry={() => void (isClientId ? byClientId : byId).refetch()} />;
  }
  const found = isClientId && (scope.all || fault !== null) ? [] : byClientId.data?.data;
  if (found === undefined) return <SkeletonRows />;
  const [first, ...others] = found;
  if (first !== undefined && others.length === 0) {
    return <Redirect replace to={href(receiptOf(first.request.id))} />;
  }
  if (first !== undefined) return children(found.map(({ request }) => request));
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
