import { useRead } from '../../api/queries.ts';
import { ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { SkeletonRows } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { ActorName, SubjectName } from './audit-names.tsx';
import { actionLabel } from './action-labels.ts';
import { useNames } from './names.ts';

const SHOWN = 8;

/** The latest audit log entries of an account. */
export function AccountAudit({ accountId }: { accountId: string }) {
  const audit = useRead('listAudit', { query: { account_id: accountId, limit: SHOWN } });
  const names = useNames();
  return (
    <Card
      title="Recent changes"
      actions={
        <ButtonLink size="small" to={`/operator/audit?of=${accountId}`}>
          View audit log
        </ButtonLink>
      }
      flush
    >
      <Loaded
        query={audit}
        loading={<SkeletonRows rows={3} />}
        empty={<p className="px-4 pb-5 text-sm text-ink-3 sm:px-5">No changes yet</p>}
      >
        {({ data }) => (
          <ul className="divide-y divide-line text-sm">
            {data.map((entry) => (
              <li
                key={entry.id}
                className="flex flex-wrap items-baseline gap-x-4 gap-y-0.5 px-4 py-2.5 sm:px-5"
              >
                <span className="min-w-0 flex-1 basis-60">
                  {actionLabel(entry.action)} <SubjectName entry={entry} names={names} />
                </span>
                <span className="text-xs text-ink-3">
                  <ActorName actor={entry.actor} names={names} />, <Time at={entry.at} relative />
                </span>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Card>
  );
}
