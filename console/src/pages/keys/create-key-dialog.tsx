import { act } from '../../api/act.ts';
import type { ResponseOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { CodeTabs } from '../../components/code.tsx';
import { EditDialog } from '../../components/edit-dialog.tsx';
import { openOverlay } from '../../components/overlays.tsx';
import { OneTimeSecret, SecretDialog } from '../../components/secret-dialog.tsx';
import { closestToReady, exampleRequest } from '../../format/modality.ts';
import { samplesOf } from '../../snippets/samples.ts';
import type { CurrentAccount } from '../../state/account.ts';
import { useSession } from '../../state/session.tsx';
import { keyErrors, NEW_KEY, settingsOf, type KeyDraft } from './key-draft.ts';
import { KeyFields } from './key-form.tsx';

interface CreateKeyDialogProps {
  account: CurrentAccount;
  onClose: () => void;
}

export default function CreateKeyDialog({ account, onClose }: CreateKeyDialogProps) {
  const create = async (draft: KeyDraft, changed: Partial<KeyDraft>) => {
    const settings = settingsOf(draft, changed, Date.now());
    const created = await act(
      'createKey',
      {
        body: {
          account_id: account.id,
          ...(draft.admin && { kind: 'admin' }),
          ...settings,
          name: draft.name.trim(),
        },
      },
      {
        done: ({ name }) => `Key ${name} created`,
        ifLost:
          'The response was lost, so the key may exist. If it is in the list of keys, revoke it: it cannot be shown again.',
      },
    );
    void openOverlay((close) => <CreatedKey created={created} onClose={close} />);
  };
  return (
    <EditDialog
      size="medium"
      title="Create API key"
      hint={`Usage is charged to the account ${account.name}.`}
      action="Create key"
      initial={NEW_KEY}
      check={(draft) => keyErrors(draft, Date.now())}
      submit={create}
      onClose={onClose}
    >
      {(draft, set, field, invalid) => <KeyFields {...{ draft, set, field, invalid }} before={null} />}
    </EditDialog>
  );
}

function CreatedKey({ created, onClose }: { created: ResponseOf<'createKey'>; onClose: () => void }) {
  return (
    <SecretDialog
      size="medium"
      title={`API key ${created.name}`}
      what="key"
      ifLost="The key cannot be shown again. If you lose it, you need to create a new one."
      onClose={onClose}
    >
      {(onCopied) => (
        <div className="space-y-6">
          <OneTimeSecret text={created.key} what="key" label="API key" onCopied={onCopied}>
            Copy this key now. It is shown only once, and not even an operator can recover it. Store it in a
            safe place.
          </OneTimeSecret>
          {created.kind === 'admin' ? (
            <p className="text-sm text-ink-3">
              Use this key for the management API: send it as a{' '}
              <code className="font-mono text-xs">Bearer</code> token to paths under{' '}
              <code className="font-mono text-xs">/api</code>.
            </p>
          ) : (
            <FirstCall created={created} />
          )}
        </div>
      )}
    </SecretDialog>
  );
}

function FirstCall({ created }: { created: ResponseOf<'createKey'> }) {
  const { public_url } = useSession();
  const models = useRead('listServedModels', undefined);
  const allowed = created.allowed_models;
  const usable = models.data?.data.filter(({ id }) => allowed === null || allowed.includes(id)) ?? [];
  const found = closestToReady(usable);
  const id = found?.id ?? allowed?.[0];
  if (id === undefined) return null;
  const request = exampleRequest(found ?? { id, modality: null, recommended_sampling: {} });
  return (
    <section>
      <h3 className="mb-1 text-sm font-semibold">Example request</h3>
      <CodeTabs
        label="Example request"
        samples={samplesOf({ baseUrl: public_url, key: created.key, request })}
      />
    </section>
  );
}
