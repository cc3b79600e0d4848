import { useId } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { useAction, useRead } from '../../api/queries.ts';
import { CodeTabs } from '../../components/code.tsx';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import { OneTimeSecret, SecretDialog } from '../../components/secret-dialog.tsx';
import { returnsEmbeddings } from '../../format/modality.ts';
import { samplesOf } from '../../snippets/samples.ts';
import type { CurrentAccount } from '../../state/account.ts';
import { openOverlay } from '../../components/overlays.tsx';
import { useSession } from '../../state/session.tsx';
import { NEW_KEY } from './key-draft.ts';
import { KeyForm } from './key-form.tsx';

interface CreateKeyDialogProps {
  account: CurrentAccount;
  open: boolean;
  onClose: () => void;
}

/** Creates a key and shows it once. */
export default function CreateKeyDialog({ account, open, onClose }: CreateKeyDialogProps) {
  const form = useId();
  const create = useAction('createKey', {
    changes: ['listKeys'],
    done: ({ name }) => `Key ${name} created`,
    onSuccess: (created) => void openOverlay((close) => <CreatedKey created={created} onClose={close} />),
    quiet: true,
  });
  const close = () => {
    // Drops the key from memory.
    create.reset();
    onClose();
  };
  return (
    <Dialog
      modal
      open={open}
      onClose={close}
      size="medium"
      title="Create API key"
      hint={`Usage is charged to the account ${account.name}.`}
      actions={<FormActions form={form} action="Create key" busy={create.isPending} onCancel={close} />}
    >
      <KeyForm
        id={form}
        initial={NEW_KEY}
        before={null}
        error={create.error}
        onSubmit={(settings, { admin }) =>
          create.mutate(
            { body: { account_id: account.id, ...(admin && { kind: 'admin' }), ...settings } },
            { onSuccess: close },
          )
        }
      />
    </Dialog>
  );
}

/** Shows a new key once, with example requests. */
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
  // Most new keys are for text.
  const generating = usable.filter((one) => !returnsEmbeddings(one));
  const preferred = generating.length > 0 ? generating : usable;
  const found = preferred.find(({ state }) => state === 'ready') ?? preferred[0];
  const model = found?.id ?? allowed?.[0];
  if (model === undefined) return null;
  const content = 'What is a sluice?';
  const request =
    found !== undefined && returnsEmbeddings(found)
      ? { model, input: content }
      : { model, messages: [{ role: 'user', content }], ...found?.recommended_sampling };
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
