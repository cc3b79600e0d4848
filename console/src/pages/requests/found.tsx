import { SearchX } from 'lucide-react';
import type { ReactNode } from 'react';
import { Redirect } from 'wouter';
import { useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Empty, Failed, SkeletonRows } from '../../components/states.tsx';
import { useHrefWithAccount } from '../../shell/account.ts';
import type { Scope } from '../../shell/scope.tsx';
import type { Request } from './outcome.tsx';

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

interface FoundProps {
  scope: Scope;
  /** An id of ours or of the caller. */
  id: string;
  /** The address of the receipt of a request. */
  receiptOf: (id: string) => string;
  onClear: () => void;
  /** Shows several requests that carry the same id. */
  children: (requests: readonly Request[]) => ReactNode;
}

/** What an id leads to: the receipt where it is of one request, else all that carry it. */
export function Found({ scope, id, receiptOf, onClear, children }: FoundProps) {
  const href = useHrefWithAccount();
  const isOurs = UUID.test(id);
  const ours = useRead('getReceipt', { params: { id: id.toLowerCase() } }, { enabled: isOurs });
  const isNotOurs = !isOurs || ours.error?.status === 404;
  const theirs = useRead(
    'listReceipts',
    { query: { client_request_id: id, ...scope.query } },
    { enabled: isNotOurs && !scope.all },
  );
  if (ours.data) return <Redirect replace to={href(receiptOf(ours.data.request.id))} />;
  const fault = isNotOurs ? theirs.error : ours.error;
  // An id that nobody can have sent is not found either.
  if (fault !== null && fault.status !== 400) {
    return <Failed error={fault} retry={() => void (isNotOurs ? theirs : ours).refetch()} />;
  }
  const found = isNotOurs && (scope.all || fault !== null) ? [] : theirs.data?.data;
  if (found === undefined) return <SkeletonRows />;
  const [first, ...others] = found;
  if (first !== undefined && others.length === 0) {
    return <Redirect replace to={href(receiptOf(first.request.id))} />;
  }
  if (first !== undefined) return children(found.map(({ request }) => request));
  return (
    <Empty
      icon={SearchX}
      title="No request has this id"
      action={<Button onClick={onClear}>Back to all requests</Button>}
    >
      {scope.all
        ? 'Ids that callers gave themselves are found in their account: choose it first.'
        : 'An answer carries it as x-request-id; your own is what was sent as x-client-request-id. What was refused is not kept.'}
    </Empty>
  );
}
