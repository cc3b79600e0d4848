import { ListTree } from 'lucide-react';
import type { ResponseOf } from '../../api/client.ts';
import { useAccountNames, useKeyNames } from '../../api/names.ts';
import type { QueryState } from '../../api/queries.ts';
import { Loaded } from '../../components/loaded.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Table } from '../../components/table.tsx';
import { scopeInQuery, type Scope } from '../../state/scope.ts';
import { logColumns } from '../../requests/log-columns.tsx';

interface LatestRequestsProps {
  scope: Scope;
  requests: QueryState<ResponseOf<'listRequests'>>;
}

/** Columns of the request log that fit beside the models. */
const SHOWN = new Set(['time', 'model', 'status', 'duration', 'cost']);

/** The latest requests, each with a link to its receipt. */
export function LatestRequests({ scope, requests }: LatestRequestsProps) {
  const rows = requests.data?.data ?? [];
  const key = useKeyNames(
    scope.query,
    rows.map((row) => row.key_id),
  );
  const account = useAccountNames(scope.all);
  const query = new URLSearchParams(scopeInQuery(scope));
  const search = query.size > 0 ? `?${query}` : '';
  const receipt = (id: string) => `/requests/${encodeURIComponent(id)}${search}`;
  const columns = logColumns(rows, { key, account: scope.all ? account : null, receipt, short: true });
  return (
    <Loaded
      query={requests}
      empty={
        <EmptyState icon={ListTree} title="No requests yet">
          Requests appear here within seconds, with their status, duration and cost.
        </EmptyState>
      }
    >
      {({ data }) => (
        <Table
          label="Latest requests"
          columns={columns.filter(({ name }) => SHOWN.has(name))}
          rows={data}
          keyOf={({ id }) => id}
        />
      )}
    </Loaded>
  );
}
