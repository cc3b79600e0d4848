import { ChartColumn, ListTree, Pencil } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { Redirect } from 'wouter';
import { act } from '../../api/act.ts';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button, ButtonLink } from '../../components/button.tsx';
import { CopiedId, DetailList, Mono } from '../../components/detail-list.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { EditDialog } from '../../components/edit-dialog.tsx';
import { LimitMeters } from '../../components/limit-meter.tsx';
import { useWasTrue } from '../../components/opening.ts';
import { Loaded, Skeleton } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { UsageFigures } from '../../components/usage-figures.tsx';
import { openConnect } from '../../connect/open-connect.tsx';
import type { CurrentAccount } from '../../state/account.ts';
import { useKeyRights } from '../../state/session.tsx';
import { endPreviousSecret, PreviousSecret, revokeKey, rotateKey } from './key-changes.tsx';
import { draftOf, keyErrors, settingsOf } from './key-draft.ts';
import { KeyFields } from './key-form.tsx';
import { KeyState, LastUse, MaskedKey, Tags } from './key-state.tsx';

type Key = ItemOf<'listKeys'>;

interface KeyDialogProps {
  account: CurrentAccount;
  /** Id of the open key; null: closed. */
  id: string | null;
  /** The key from the list, shown until its details are loaded. */
  listed: Key | undefined;
  editing: boolean;
  onEdit: (editing: boolean) => void;
  onClose: () => void;
}

/** A drawer with one key, to view, edit, rotate or revoke it. */
export default function KeyDialog({ account, id, listed, editing, onEdit, onClose }: KeyDialogProps) {
  const read = useRead('getKey', { params: { id: id ?? '' } }, { enabled: id !== null });
  const key = read.data ?? listed;
  const rightsOf = useKeyRights();
  const rights = key === undefined ? null : rightsOf(key);
  // The form stays if the key is revoked in the meantime, and shows why it cannot be saved.
  const mayEdit = useWasTrue(editing && rights === 'change');
  if (key !== undefined && key.account_id !== account.id) {
    // The page of another account would change its key.
    const query = new URLSearchParams({ account: key.account_id, key: key.id });
    return <Redirect replace to={`/keys?${query}`} />;
  }
  return (
    <Dialog
      side
      open={id !== null}
      onClose={onClose}
      title={key?.name ?? 'Key'}
      actions={
        key !== undefined &&
        rights !== null && (
          <>
            {key.kind === 'caller' && key.status === 'live' && (
              <Button onClick={() => openConnect({ keyId: key.id })}>Connect</Button>
            )}
            {rights === 'change' && key.purpose === 'api' && (
              <Button onClick={() => void rotateKey(key)}>Rotate</Button>
            )}
            <Button kind="danger" onClick={() => revokeKey(key)}>
              Revoke key
            </Button>
          </>
        )
      }
    >
      <Loaded
        query={{ data: key, error: read.error, refetch: read.refetch }}
        loading={<Skeleton className="h-64 w-full" />}
      >
        {(loaded) => (
          <KeyDetails
            apiKey={loaded}
            onEdit={() => onEdit(true)}
            onEndPrevious={() => endPreviousSecret(loaded)}
          />
        )}
      </Loaded>
      {editing && mayEdit && read.data !== undefined && (
        <EditKey apiKey={read.data} onClose={() => onEdit(false)} />
      )}
    </Dialog>
  );
}

function EditKey({ apiKey, onClose }: { apiKey: Key; onClose: () => void }) {
  const [before] = useState(apiKey);
  return (
    <EditDialog
      side
      title={`Edit ${before.name}`}
      action="Save"
      initial={draftOf(before)}
      check={(draft) => keyErrors(draft, Date.now())}
      submit={(draft, changed) =>
        act(
          'changeKey',
          { params: { id: before.id }, body: settingsOf(draft, changed, Date.now()) },
          { done: ({ name }) => `Key ${name} updated` },
        )
      }
      onClose={onClose}
    >
      {(draft, set, field, invalid) => <KeyFields {...{ draft, set, field, invalid, before }} />}
    </EditDialog>
  );
}

interface KeyActions {
  onEdit: () => void;
  /** Asks whether to end the previous secret. */
  onEndPrevious: () => void;
}

/** The details of a key: properties, usage this month and limits. */
function KeyDetails({ apiKey: key, ...actions }: { apiKey: Key } & KeyActions) {
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
          <Button size="small" icon={<Pencil />} onClick={onEdit}>
            Edit
          </Button>
        )}
      </div>
      <DetailList
        details={[
          { label: 'Key', value: <MaskedKey apiKey={key} /> },
          key.previous !== null && {
            label: 'Previous secret',
            value: <PreviousSecret previous={key.previous} onEnd={mayChange ? onEndPrevious : null} />,
          },
          { label: 'ID', value: <CopiedId id={key.id} what="key ID" /> },
          key.tags.length > 0 && { label: 'Tags', value: <Tags tags={key.tags} wraps /> },
          { label: 'Created', value: <Time at={key.created_at} /> },
          { label: 'Last used', value: <LastUse apiKey={key} /> },
          key.status === 'revoked'
            ? { label: 'Revoked', value: <Time at={key.revoked_at} /> }
            : {
                label: key.status === 'expired' ? 'Expired' : 'Expires',
                value: <Time at={key.expires_at} />,
              },
          key.strict && { label: 'Strict', value: 'Refuses requests of which a part would have no effect' },
          {
            label: 'Models',
            value:
              key.allowed_models === null
                ? 'All'
                : key.allowed_models.map((id) => (
                    <span key={id} className="block">
                      <Mono>{id}</Mono>
                    </span>
                  )),
          },
        ]}
      />
    </div>
  );
}

function KeyUsage({ apiKey: { id, account_id } }: { apiKey: Key }) {
  const read = useRead('readUsage', { query: { account_id, key_id: id } });
  return (
    <>
      <Loaded query={read} loading={<Skeleton className="h-[5.25rem] w-full" />}>
        {({ data: [sum] }) => <UsageFigures usage={sum} className="rounded-lg border border-line p-4" />}
      </Loaded>
      <div className="mt-3 flex flex-wrap gap-2">
        <ButtonLink size="small" to={`/requests?key=${id}`} icon={<ListTree />}>
          View requests
        </ButtonLink>
        <ButtonLink size="small" to={`/usage?key=${id}`} icon={<ChartColumn />}>
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
