import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Card } from '../../components/card.tsx';
import { LimitMeter } from '../../components/limit-meter.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Skeleton } from '../../components/states.tsx';
import type { Selection } from './selection.ts';

const EVERY_MS = 5000;

interface LimitsCardProps {
  accountId: string;
  selection: Selection;
}

/** Current usage of the limits of the account, and of the selected key and model. */
export function LimitsCard({ accountId, selection: { key, model } }: LimitsCardProps) {
  const query = {
    account_id: accountId,
    ...(key !== null && { key_id: key }),
    ...(model !== null && { model }),
  };
  const account = useRead('getAccount', { params: { id: accountId } });
  const limits = useRead('readLimits', { query }, { everyMs: EVERY_MS, keep: true });
  return (
    <Card
      title="Limits"
      hint={
        account.data
          ? `Current usage, including running requests. ${account.data.plan === null ? 'Default plan' : `Plan: ${account.data.plan}`}.`
          : 'Current usage, including running requests.'
      }
    >
      <Loaded
        query={limits}
        loading={<Skeleton className="h-34 w-full" />}
        empty={
          <p className="text-sm text-ink-3">
            {model === null
              ? 'The plan of this account has no overall limits.'
              : 'The plan of this account has no limits for this model.'}
          </p>
        }
      >
        {({ data }) => (
          <ul className="grid gap-x-8 gap-y-5 sm:grid-cols-2 lg:grid-cols-3">
            {data.map((limitStatus) => (
              <li key={`${limitStatus.scope} ${limitStatus.model ?? ''} ${limitStatus.limit}`}>
                <LimitMeter limitStatus={limitStatus} scope={<AppliesTo limitStatus={limitStatus} />} />
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Card>
  );
}

/** The scope of a limit, unless it applies to all requests of the account. */
function AppliesTo({ limitStatus: { scope, model } }: { limitStatus: ItemOf<'readLimits'> }) {
  if (scope === 'account' && model === null) return null;
  return (
    <span className="flex w-full items-center gap-2">
      {scope === 'key' && <Badge>This key</Badge>}
      {model !== null && <span className="truncate">{model}</span>}
    </span>
  );
}
