import { KeyRound, SearchX } from 'lucide-react';
import { useDeferredValue, useMemo, useState } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useAll } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Segmented } from '../../components/choices.tsx';
import { SearchField } from '../../components/search-field.tsx';
import { EmptyState } from '../../components/states.tsx';
import type { CurrentAccount } from '../../state/account.ts';
import { useQueryState } from '../../state/url-query.ts';
import { KeysTable } from './keys-table.tsx';
import { RevokeKey } from './revoke-key.tsx';
import { RotateKey } from './rotate-key.tsx';
import { counted } from '../../format/number.ts';

type Key = ItemOf<'listKeys'>;

const STATES = [
  { value: 'live', label: 'Active' },
  { value: 'ended', label: 'Revoked and expired' },
] as const;

/** The search field is shown for more keys than this. */
const MANY = 8;

interface KeysCardProps {
  account: CurrentAccount;
  /** All keys of the account, newest first. */
  keys: readonly Key[];
  onCreate: () => void;
}

/** The keys of an account, filtered as set in the URL. */
export function KeysCard({ account, keys, onCreate }: KeysCardProps) {
  const [query, change] = useQueryState();
  const [revoking, setRevoking] = useState<Key | null>(null);
  const [rotating, setRotating] = useState<Key | null>(null);
  const usage = useAll('readUsage', { query: { account_id: account.id, by: 'key' } }, { everyMs: 60_000 });
  const spend = useMemo(
    () => usage.data && new Map(usage.data.map(({ key_id, cost_usd }) => [key_id ?? '', cost_usd])),
    [usage.data],
  );
  const state = query.get('state') === 'ended' ? 'ended' : 'live';
  const search = query.get('q') ?? '';
  const wanted = useDeferredValue(search).trim().toLowerCase();
  const seen = useMemo(
    () =>
      keys.filter(
        (key) =>
          (key.status === 'live') === (state === 'live') &&
          (wanted === '' ||
            key.name.toLowerCase().includes(wanted) ||
            key.last_four.toLowerCase() === wanted ||
            key.id === wanted),
      ),
    [keys, state, wanted],
  );
  const hrefOf = ({ id }: Key) => {
    const to = new URLSearchParams(query);
    to.set('key', id);
    return `/keys?${to}`;
  };
  return (
    <Card flush>
      <div className="flex flex-wrap items-center justify-between gap-3 border-b border-line px-4 py-3 sm:px-5">
        <Segmented
          label="Status"
          value={state}
          choices={STATES}
          onChange={(chosen) => change({ state: chosen === 'live' ? null : chosen })}
        />
        {(keys.length > MANY || search !== '') && (
          <SearchField
            label="Search by name or last 4 characters"
            className="w-full sm:w-64"
            value={search}
            onChange={(q) => change({ q }, { replace: true })}
          />
        )}
      </div>
      {seen.length === 0 ? (
        <NoKeys {...{ state, search, onCreate }} onClear={() => change({ q: null })} />
      ) : (
        <>
          <KeysTable
            keys={seen}
            spend={spend}
            openId={query.get('key')}
            hrefOf={hrefOf}
            onOpen={({ id }) => change({ key: id })}
            onEdit={({ id }) => change({ key: id, edit: '1' })}
            onRotate={setRotating}
            onRevoke={setRevoking}
          />
          <p role="status" className="border-t border-line px-4 py-3 text-xs text-ink-3 tabular-nums sm:px-5">
            {counted(seen.length, 'key')}. Cost is for the current calendar month in UTC.
          </p>
        </>
      )}
      <RevokeKey target={revoking} onClose={() => setRevoking(null)} />
      <RotateKey target={rotating} onClose={() => setRotating(null)} />
    </Card>
  );
}

function NoKeys({
  state,
  search,
  onClear,
  onCreate,
}: {
  state: 'live' | 'ended';
  search: string;
  onClear: () => void;
  onCreate: () => void;
}) {
  if (search !== '') {
    return (
      <EmptyState
        icon={SearchX}
        title="No matching keys"
        action={<Button onClick={onClear}>Clear search</Button>}
      >
        Only {state === 'live' ? 'active' : 'revoked and expired'} keys are searched, by name, last 4
        characters or ID.
      </EmptyState>
    );
  }
  return state === 'live' ? (
    <EmptyState
      icon={KeyRound}
      title="No active keys"
      action={<Button onClick={onCreate}>Create key</Button>}
    >
      All keys of this account are revoked or expired.
    </EmptyState>
  ) : (
    <EmptyState icon={KeyRound} title="No revoked or expired keys">
      Revoked and expired keys appear here with their usage.
    </EmptyState>
  );
}
