import { ChartColumn, ListTree, Pencil } from 'lucide-react';
import type { ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Figure } from '../../components/card.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { LimitMeter } from '../../components/limit-meter.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Skeleton } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { exactMoney, money } from '../../format/money.ts';
import { compact, whole } from '../../format/number.ts';
import { KeyState, MaskedKey, Tags, useKeyRights } from './key-state.tsx';
import { LastUse } from './last-use.tsx';
import { PreviousSecret } from './rotate-key.tsx';

type Key = ItemOf<'listKeys'>;

interface KeyActions {
  onEdit: () => void;
  /** Asks whether to end the previous secret. */
  onEndPrevious: () => void;
}

/** The details of a key: properties, usage this month and limits. */
export function KeyDetails({ apiKey: key, ...actions }: { apiKey: Key } & KeyActions) {
  return (
    <div className="space-y-7">
      <Facts apiKey={key} {...actions} />
      <KeySection title="This month">
        <KeyUsage apiKey={key} />
      </KeySection>
      {key.status === 'live' && (
        <KeySection title="Limits">
          <KeyLimits apiKey={key} />
        </KeySection>
      )}
    </div>
  );
}

function KeySection({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h3 className="mb-3 text-sm font-semibold">{title}</h3>
      {children}
    </section>
  );
}

function Facts({ apiKey: key, onEdit, onEndPrevious }: { apiKey: Key } & KeyActions) {
  const mayChange = useKeyRights()(key) === 'change';
  return (
    <div>
      <div className="mb-4 flex min-h-9 items-center justify-between gap-3">
        <span className="flex flex-wrap items-center gap-3 text-sm">
          <KeyState apiKey={key} />
          {key.kind === 'admin' && <Badge tone="warn">Admin</Badge>}
          {key.purpose === 'playground' && <Badge>Playground</Badge>}
        </span>
        {mayChange && (
          <Button size="small" icon={<Pencil className="size-3.5" aria-hidden="true" />} onClick={onEdit}>
            Edit
          </Button>
        )}
      </div>
      <dl className="grid grid-cols-[7rem_minmax(0,1fr)] gap-x-4 gap-y-2.5 text-sm">
        <Fact label="Key">
          <MaskedKey apiKey={key} />
        </Fact>
        {key.previous !== null && (
          <Fact label="Previous secret">
            <PreviousSecret previous={key.previous} onEnd={mayChange ? onEndPrevious : null} />
          </Fact>
        )}
        <Fact label="ID">
          <span className="flex items-center gap-1">
            <code className="truncate font-mono text-xs">{key.id}</code>
            <span className="-my-1.5">
              <CopyButton text={key.id} what="key ID" />
            </span>
          </span>
        </Fact>
        {key.tags.length > 0 && (
          <Fact label="Tags">
            <Tags tags={key.tags} wraps />
          </Fact>
        )}
        <Fact label="Created">
          <Time at={key.created_at} />
        </Fact>
        <Fact label="Last used">
          <LastUse apiKey={key} />
        </Fact>
        {key.status === 'revoked' ? (
          <Fact label="Revoked">
            <Time at={key.revoked_at} />
          </Fact>
        ) : (
          <Fact label={key.status === 'expired' ? 'Expired' : 'Expires'}>
            <Time at={key.expires_at} />
          </Fact>
        )}
        {key.strict && <Fact label="Strict">Refuses requests of which a part would have no effect</Fact>}
        <Fact label="Models">
          {key.allowed_models === null ? (
            'All'
          ) : (
            <ul className="space-y-0.5">
              {key.allowed_models.map((id) => (
                <li key={id} className="font-mono text-xs leading-5 break-all">
                  {id}
                </li>
              ))}
            </ul>
          )}
        </Fact>
      </dl>
    </div>
  );
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-ink-3">{label}</dt>
      <dd className="min-w-0">{children}</dd>
    </>
  );
}

function Sums({ sum }: { sum: ItemOf<'readUsage'> | undefined }) {
  const tokens = (sum?.prompt_tokens ?? 0) + (sum?.completion_tokens ?? 0);
  const cost = sum?.cost_usd ?? '0';
  const requests = sum?.requests ?? 0;
  return (
    <dl className="grid grid-cols-2 gap-4 rounded-lg border border-line p-4 sm:grid-cols-4">
      <Figure label="Cost" value={<span title={exactMoney(cost)}>{money(cost)}</span>} />
      <Figure label="Requests" value={<span title={whole(requests)}>{compact(requests)}</span>} />
      <Figure label="Tokens" value={<span title={whole(tokens)}>{compact(tokens)}</span>} />
      <Figure label="Errors" value={whole(sum?.errors ?? 0)} />
    </dl>
  );
}

function KeyUsage({ apiKey: { id, account_id } }: { apiKey: Key }) {
  const read = useRead('readUsage', { query: { account_id, key_id: id } });
  return (
    <>
      <Loaded query={read} loading={<Skeleton className="h-[5.25rem] w-full" />}>
        {({ data: [sum] }) => <Sums sum={sum} />}
      </Loaded>
      <div className="mt-3 flex flex-wrap gap-2">
        <ButtonLink
          size="small"
          to={`/requests?key=${id}`}
          icon={<ListTree className="size-3.5" aria-hidden="true" />}
        >
          View requests
        </ButtonLink>
        <ButtonLink
          size="small"
          to={`/usage?key=${id}`}
          icon={<ChartColumn className="size-3.5" aria-hidden="true" />}
        >
          View usage
        </ButtonLink>
      </div>
    </>
  );
}

/** Live usage of the limits of a key and its account. */
function KeyLimits({ apiKey: key }: { apiKey: Key }) {
  const read = useRead(
    'readLimits',
    { query: { account_id: key.account_id, key_id: key.id } },
    { everyMs: 10_000 },
  );
  const single = Object.keys(key.limits?.models ?? {});
  return (
    <Loaded query={read} loading={<Skeleton className="h-24 w-full" />}>
      {({ data }) => (
        <div className="space-y-5">
          <LimitMeters title="This key" limitStatuses={data.filter(({ scope }) => scope === 'key')} />
          {single.length > 0 && <p className="text-xs text-ink-3">Separate limits for {single.join(', ')}</p>}
          <LimitMeters
            title="Account (shared by all its keys)"
            limitStatuses={data.filter(({ scope }) => scope === 'account')}
          />
        </div>
      )}
    </Loaded>
  );
}

function LimitMeters({
  title,
  limitStatuses,
}: {
  title: string;
  limitStatuses: readonly ItemOf<'readLimits'>[];
}) {
  return (
    <section>
      <h4 className="mb-2.5 text-xs font-medium text-ink-3">{title}</h4>
      {limitStatuses.length === 0 ? (
        <p className="text-sm text-ink-3">No overall limits</p>
      ) : (
        <ul className="space-y-3.5">
          {limitStatuses.map((limitStatus) => (
            <li key={`${limitStatus.model ?? ''} ${limitStatus.limit}`}>
              <LimitMeter limitStatus={limitStatus} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
