import { KeyRound, SearchX } from 'lucide-react';
import { useMemo, useState } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useAll } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { LoadFailure } from '../../components/loaded.tsx';
import { EmptyState } from '../../components/states.tsx';
import type { CurrentAccount } from '../../state/account.ts';
import { useQueryState } from '../../state/url-query.ts';
import { KeyFilters, useMatching } from './key-filters.tsx';
import { KeysTable } from './keys-table.tsx';
import { useKeyRights } from './key-state.tsx';
import { revokeKey, revokeKeys } from './revoke-key.tsx';
import { rotateKey } from './rotate-key.tsx';
import { SelectedKeys } from './selected-keys.tsx';
import { counted } from '../../format/number.ts';

type Key = ItemOf<'listKeys'>;

interface KeysCardProps {
  account: CurrentAccount;
  /** All keys of the account, newest first. */
  keys: readonly Key[];
  /** Null: no key can be created. */
  onCreate: (() => void) | null;
}

/** The keys of an account, filtered as set in the URL. */
export function KeysCard({ account, keys, onCreate }: KeysCardProps) {
  const [query, change] = useQueryState();
  const usage = useAll('readUsage', { query: { account_id: account.id, by: 'key' } }, { everyMs: 60_000 });
  const spend = useMemo(
    () => usage.data && new Map(usage.data.map(({ key_id, cost_usd }) => [key_id ?? '', cost_usd])),
    [usage.data],
  );
  const { matching, state, search, tag } = useMatching(keys);
  const rightsOf = useKeyRights();
  const revocable = matching.filter((key) => rightsOf(key) !== null);
  const [selected, setSelected] = useState<ReadonlySet<string> | null>(null);
  const isSelecting = selected !== null && state === 'live';
  // Keys that the filters hide, or that were revoked elsewhere, are not selected.
  const chosen = isSelecting ? revocable.filter(({ id }) => selected.has(id)) : [];
  const toggle = ({ id }: Key) =>
    setSelected((before) =>
      before?.has(id) ? before.difference(new Set([id])) : new Set([...(before ?? []), id]),
    );
  const revokeSelected = async () => {
    if (await revokeKeys(account.id, chosen)) setSelected(null);
  };
  const hrefOf = ({ id }: Key) => {
    const to = new URLSearchParams(query);
    to.set('key', id);
    return `/keys?${to}`;
  };
  return (
    <div className="space-y-4">
      <LoadFailure query={usage} what="the cost of the keys" />
      <Card flush>
        <KeyFilters keys={keys}>
          {state === 'live' && revocable.length > 1 && !isSelecting && (
            <Button size="small" onClick={() => setSelected(new Set())}>
              Select
            </Button>
          )}
        </KeyFilters>
        {isSelecting && (
          <SelectedKeys
            shown={revocable}
            selected={chosen}
            onSelect={setSelected}
            onRevoke={() => void revokeSelected()}
          />
        )}
        {matching.length === 0 ? (
          <NoKeys
            {...{ state, onCreate }}
            isFiltered={search !== '' || tag !== null}
            onClear={() => change({ q: null, tag: null })}
          />
        ) : (
          <>
            <KeysTable
              keys={isSelecting ? revocable : matching}
              usage={usage}
              spend={spend}
              openId={query.get('key')}
              hrefOf={hrefOf}
              onOpen={({ id }) => change({ key: id })}
              onEdit={({ id }) => change({ key: id, edit: '1' })}
              onRotate={(key) => void rotateKey(key)}
              onRevoke={revokeKey}
              selected={isSelecting ? selected : null}
              onToggle={toggle}
            />
            <p
              role="status"
              className="border-t border-line px-4 py-3 text-xs text-ink-3 tabular-nums sm:px-5"
            >
              {counted(matching.length, 'key')}. Cost is for the current calendar month in UTC.
            </p>
          </>
        )}
      </Card>
    </div>
  );
}

function NoKeys({
  state,
  isFiltered,
  onClear,
  onCreate,
}: {
  state: 'live' | 'ended';
  isFiltered: boolean;
  onClear: () => void;
  onCreate: (() => void) | null;
}) {
  if (isFiltered) {
    return (
      <EmptyState
        icon={SearchX}
        title="No matching keys"
        action={<Button onClick={onClear}>Clear filters</Button>}
      >
        Only {state === 'live' ? 'active' : 'revoked and expired'} keys are searched, by name, tag, last 4
        characters or ID.
      </EmptyState>
    );
  }
  return state === 'live' ? (
    <EmptyState
      icon={KeyRound}
      title="No active keys"
      action={onCreate ? <Button onClick={onCreate}>Create key</Button> : undefined}
    >
      All keys of this account are revoked or expired.
    </EmptyState>
  ) : (
    <EmptyState icon={KeyRound} title="No revoked or expired keys">
      Revoked and expired keys appear here with their usage.
    </EmptyState>
  );
}
