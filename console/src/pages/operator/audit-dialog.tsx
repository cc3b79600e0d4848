import { Dialog } from '../../components/dialog.tsx';
import { DetailList } from '../../components/detail-list.tsx';
import { Time } from '../../components/time.tsx';
import { exactTime } from '../../format/time.ts';
import { TextLink } from '../../components/link.tsx';
import { IpAddress } from './audit-columns.tsx';
import { changesOf } from './audit-detail.ts';
import { ActorName, SubjectName } from './audit-names.tsx';
import { actionLabel, type Entry } from './action-labels.ts';
import type { Named } from './names.ts';

interface AuditDialogProps {
  /** Null: closed. */
  entry: Entry | null;
  names: ReadonlyMap<string, Named>;
  onClose: () => void;
}

/** The details of an audit log entry. */
export function AuditDialog({ entry, names, onClose }: AuditDialogProps) {
  return (
    <Dialog
      side
      open={entry !== null}
      onClose={onClose}
      title={
        entry && (
          <>
            {actionLabel(entry.action)} <SubjectName entry={entry} names={names} />
          </>
        )
      }
      hint={entry === null ? undefined : exactTime(entry.at)}
    >
      {entry && <Details entry={entry} names={names} />}
    </Dialog>
  );
}

function Details({ entry, names }: { entry: Entry; names: ReadonlyMap<string, Named> }) {
  const { actor, ip, action, subject, account_id: accountId, id, at } = entry;
  const changes = changesOf(entry);
  return (
    <div className="space-y-6">
      {changes.length > 0 && (
        <section>
          <h3 className="mb-2 text-xs font-medium text-ink-3">Details</h3>
          <ul className="divide-y divide-line rounded-lg border border-line text-sm">
            {changes.map(({ field, from, to }) => (
              <li key={field} className="px-4 py-3">
                <span className="block text-xs text-ink-3">{field}</span>
                {from !== null && <del className="block break-words text-ink-3">{from}</del>}
                <span className="block break-words">{to}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      <DetailList
        details={[
          { label: 'Time', value: <Time at={at} /> },
          { label: 'Actor', value: <ActorName actor={actor} names={names} /> },
          { label: 'IP address', value: <IpAddress ip={ip} /> },
          ...(accountId === null
            ? []
            : [
                {
                  label: 'Account',
                  value: (
                    <TextLink to={`/operator/accounts/${accountId}`}>
                      {names.get(`account:${accountId}`)?.name ?? accountId}
                    </TextLink>
                  ),
                },
              ]),
          { label: 'Event type', value: <Mono>{action}</Mono> },
          { label: 'Actor ID', value: <Mono>{actor}</Mono> },
          { label: 'Subject ID', value: <Mono>{subject}</Mono> },
          { label: 'Event ID', value: <Mono>{id}</Mono> },
        ]}
      />
      <p className="flex flex-wrap gap-x-4 gap-y-1 text-sm">
        <TextLink to={`/operator/audit?actor=${encodeURIComponent(actor)}`}>
          All events by this actor
        </TextLink>
        <TextLink to={`/operator/audit?subject=${encodeURIComponent(subject)}`}>
          All events for this subject
        </TextLink>
      </p>
    </div>
  );
}

function Mono({ children }: { children: string }) {
  return <span className="font-mono text-xs break-all">{children}</span>;
}
