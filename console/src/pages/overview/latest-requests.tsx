import { ListTree } from 'lucide-react';
import type { ApiError, ResponseOf } from '../../api/client.ts';
import { useAccountNames, useKeyNames } from '../../api/names.ts';
import { EmptyState, ErrorState, SkeletonRows } from '../../components/states.tsx';
import { Table } from '../../components/table.tsx';
import { scopeInQuery, type Scope } from '../../shell/scope.tsx';
import { logColumns } from '../requests/log-columns.tsx';

interface LatestRequestsProps {
  scope: Scope;
  requests: { data: ResponseOf<'listRequests'> | undefined; error: ApiError | null; refetch: () => unknown };
}

/** Columns of the request log that fit beside the models. */
const SHOWN = new Set(['time', 'model', 'status', 'duration', 'cost']);

/** The latest requests, each with a link to its receipt. */
export function LatestRequests({ scope, requests: { data, error, refetch } }: LatestRequestsProps) {
  const rows = data?.data ?? [];
  const key = useKeyNames(
    scope.query,
    rows.map((row) => row.key_id),
  );
  const account = useAccountNames(scope.all);
  if (data === undefined) {
    return error === null ? <SkeletonRows /> : <ErrorState error={error} retry={() => void refetch()} />;
  }
  if (rows.length === 0) {
    return (
      <EmptyState icon={ListTree} title="No requests yet">
        Requests appear here within seconds, with their status, duration and cost.
      </EmptyState>
    );
  }
  const query = new URLSearchParams(scopeInQuery(scope));
  const search = query.size > 0 ? `?${query}` : '';
  const receipt = (id: string) => `/requests/${encodeURIComponent(id)}${search}`;
  const columns = logColumns(rows, { key, account: scope.all ? account : null, receipt, short: true });
  return (
    <Table
      label="Latest requests"
      columns={columns.filter(({ name }) => SHOWN.has(name))}
      rows={rows}
      keyOf={({ id }) => id}
    />
  );
}
