import { Trash2 } from 'lucide-react';
import { useState } from 'react';
import { act } from '../../api/act.ts';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button, ButtonLink, IconButton } from '../../components/button.tsx';
import { Checkbox } from '../../components/choices.tsx';
import { confirm } from '../../components/confirm.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { EngineOutput } from '../../components/engine-output.tsx';
import { EditDialog } from '../../components/edit-dialog.tsx';
import { TextLink } from '../../components/link.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { Loaded, Notice, SkeletonRows } from '../../components/states.tsx';
import { openConnect } from '../../connect/open-connect.tsx';
import { generatesText, outputLabel } from '../../format/modality.ts';
import { bytes, counted } from '../../format/number.ts';
import { useServiceScope } from '../../state/account.ts';
import { useSession } from '../../state/session.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { ModelActivity } from './model-activity.tsx';
import { ModelDetails, ModelMeasured } from './model-details.tsx';
import { NEW_SERVER, offerChange, offerDraftOf, offerOf, serverOf, type ServerDraft } from './model-draft.ts';
import { KeepField, OfferFields, ServerFields } from './model-forms.tsx';

type Model = ItemOf<'listServedModels'>;

interface ModelDialogProps {
  /** Null: closed. */
  model: Model | null;
  models: readonly Model[];
  /** Time of the data, Unix milliseconds. */
  atMs: number;
  onClose: () => void;
}

export default function ModelDialog({ model, models, atMs, onClose }: ModelDialogProps) {
  const { user } = useSession();
  const scope = useServiceScope();
  const [mode, setMode] = useMode(user.operator ? model : null);
  const view = () => setMode('view');
  return (
    <Dialog
      side
      open={model !== null}
      onClose={onClose}
      title={model?.id ?? ''}
      tools={model && <CopyButton text={model.id} what="model ID" />}
      actions={model && <Actions model={model} onRemoved={onClose} onEdit={() => setMode('edit')} />}
    >
      {model !== null && (
        <div className="space-y-5">
          <ModelActivity model={model} models={models} atMs={atMs} />
          {user.operator && model.origin === 'file' && (
            <Notice title="Defined in the configuration file">
              To change or remove the model, edit the file and restart the service.
            </Notice>
          )}
          <ModelDetails model={model} isOperator={user.operator} />
          {!model.invalid && (scope.all || scope.account !== null) && (
            <ModelMeasured id={model.id} scope={scope} />
          )}
          {user.operator && !model.embedded && !model.invalid && (
            <ModelReplicas model={model} onAdd={() => setMode('replica')} />
          )}
          {user.operator && model.embedded && <ModelOutput id={model.id} />}
        </div>
      )}
      {model !== null && mode === 'edit' && <EditModel model={model} onClose={view} />}
      {model !== null && mode === 'replica' && <AddReplica id={model.id} onClose={view} />}
    </Dialog>
  );
}

function ModelOutput({ id }: { id: string }) {
  const { data } = useRead('listEngines', undefined, { everyMs: 2000 });
  const replica = data?.data.find(({ model }) => model === id);
  return replica && <EngineOutput replica={replica} />;
}

function EditModel({ model, onClose }: { model: Model; onClose: () => void }) {
  return (
    <EditDialog
      side
      title={`Edit ${model.id}`}
      action="Save"
      initial={{ ...offerDraftOf(model), keep: model.keep === true }}
      check={(draft) => offerOf(draft).errors ?? {}}
      submit={(draft, changed) =>
        act(
          'updateModel',
          { body: { model: model.id, ...offerChange(draft, changed) } },
          { done: ({ id }) => `${id} was updated` },
        )
      }
      onClose={onClose}
    >
      {(draft, set, field) => (
        <>
          <OfferFields generates={generatesText(model)} field={field} />
          {model.embedded && <KeepField value={draft.keep} onChange={(keep) => set({ keep })} />}
          <Notice>
            A new price applies from the next request on.
            {model.embedded &&
              ' A new context length restarts the engine: running requests have 10 seconds to finish.'}
          </Notice>
        </>
      )}
    </EditDialog>
  );
}

const REPLICA = 'replica.';

function AddReplica({ id, onClose }: { id: string; onClose: () => void }) {
  const add = async (draft: ServerDraft) => {
    const { value } = serverOf(draft, REPLICA);
    if (value !== null)
      await act('addReplica', { body: { model: id, replica: value } }, { done: 'The replica was added' });
  };
  return (
    <EditDialog
      side
      title={`Add a replica of ${id}`}
      action="Add replica"
      initial={NEW_SERVER}
      check={(draft) => serverOf(draft, REPLICA).errors ?? {}}
      submit={add}
      onClose={onClose}
    >
      {({ dialect }, set, field) => (
        <ServerFields
          prefix={REPLICA}
          dialect={dialect}
          onDialect={(chosen) => set({ dialect: chosen })}
          field={field}
        />
      )}
    </EditDialog>
  );
}

type Mode = 'view' | 'edit' | 'replica';

/** The mode of the drawer. In the URL, so that the browser's Back button leaves a form. */
function useMode(model: Model | null): [Mode, (mode: Mode) => void] {
  const [query, change] = useQueryState();
  const form = query.get('form');
  const isEditing = form === 'edit' && model?.origin === 'added' && !model.invalid;
  const isAdding = form === 'replica' && model?.embedded === false && !model.invalid;
  const setMode = (mode: Mode) =>
    mode === 'view' ? change({ form: null }, { replace: true }) : change({ form: mode });
  return [isEditing ? 'edit' : isAdding ? 'replica' : 'view', setMode];
}

function Actions({ model, onRemoved, onEdit }: { model: Model; onRemoved: () => void; onEdit: () => void }) {
  const { user } = useSession();
  const { id, state } = model;
  const isAdded = model.origin === 'added';
  const remove = async () => {
    if (await removeModel(model)) onRemoved();
  };
  if (!user.operator) return <Uses model={model} />;
  return (
    <>
      {isAdded && (
        <Button kind="danger" onClick={() => void remove()}>
          Remove
        </Button>
      )}
      {model.embedded && (state === 'ready' || state === 'loading') && (
        <Button onClick={() => unloadModel(model)}>Unload</Button>
      )}
      {!model.is_default && !model.invalid && (
        <Button
          onClick={() =>
            act('setDefaultModel', { body: { model: id } }, { done: `${id} is now the default model` })
          }
        >
          Make default
        </Button>
      )}
      {isAdded && !model.invalid && <Button onClick={onEdit}>Edit</Button>}
      <Uses model={model} />
    </>
  );
}

function Uses({ model }: { model: Model }) {
  return (
    <>
      {!model.invalid && <Button onClick={() => openConnect({ model: model.id })}>Connect</Button>}
      {model.state === 'ready' && outputLabel(model) !== 'Rerank' && (
        <ButtonLink kind="primary" to={`/playground?model=${encodeURIComponent(model.id)}`}>
          Try in playground
        </ButtonLink>
      )}
    </>
  );
}

type Replica = ItemOf<'listEngines'>;

const EVERY_MS = 2000;

/** The servers of a model. If the model was added at run time, servers can be added and removed. */
function ModelReplicas({ model, onAdd }: { model: Model; onAdd: () => void }) {
  const query = useRead('listEngines', undefined, { everyMs: EVERY_MS });
  const isAdded = model.origin === 'added';
  return (
    <section className="space-y-2">
      <header className="flex items-center justify-between gap-3">
        <h3 className="text-sm font-semibold">Replicas</h3>
        {isAdded && (
          <Button size="small" onClick={onAdd}>
            Add replica
          </Button>
        )}
      </header>
      <Loaded query={query} loading={<SkeletonRows rows={1} />}>
        {({ data }) => {
          const replicas = data.filter((replica) => replica.model === model.id);
          return (
            <ul className="divide-y divide-line" aria-label="Replicas">
              {replicas.map((replica) => (
                <li key={replica.name} className="flex items-center justify-between gap-3 py-2 text-sm">
                  <span className="min-w-0">
                    <TextLink
                      to={`/operator/operations?engine=${encodeURIComponent(`${replica.model} ${replica.name}`)}`}
                    >
                      <span className="wrap-anywhere">{replica.url ?? replica.name}</span>
                    </TextLink>
                    <span className="block text-xs text-ink-3">
                      {replica.dialect}
                      {/* If the model is down, the reason is already shown above. */}
                      {replica.reason !== null && model.state !== 'down' && `: ${replica.reason}`}
                    </span>
                  </span>
                  <span className="flex shrink-0 items-center gap-1 text-xs">
                    <StateBadge status={replica} />
                    {isAdded && replicas.length > 1 && (
                      <IconButton
                        label={`Remove ${replica.url ?? replica.name}`}
                        onClick={() => removeReplica(replica)}
                      >
                        <Trash2 />
                      </IconButton>
                    )}
                  </span>
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
      <p className="text-xs text-ink-3">Open a replica to drain or resume it.</p>
    </section>
  );
}

function removeReplica({ model, name, url }: Replica): void {
  void confirm({
    title: `Remove this replica of ${model}?`,
    action: 'Remove replica',
    children: (
      <p className="wrap-anywhere">
        All instances stop sending new requests to {url}. Running requests have 30 seconds to finish, unless
        drainMs is set to another time.
      </p>
    ),
    run: () => act('removeReplica', { body: { model, name } }, { done: 'The replica was removed' }),
  });
}

/** Asks whether to remove a model, and removes it. Resolves to whether it was removed. */
function removeModel(model: Model): Promise<boolean> {
  let keepFile = false;
  return confirm({
    title: `Remove ${model.id}?`,
    action: 'Remove model',
    children: <RemovalConsequences model={model} onChoose={(keep) => (keepFile = keep)} />,
    run: () =>
      act(
        'removeModel',
        { body: { model: model.id, keep_file: keepFile } },
        { done: ({ id }) => `${id} was removed` },
      ),
  });
}

function RemovalConsequences({ model, onChoose }: { model: Model; onChoose: (keepFile: boolean) => void }) {
  const [keepFile, setKeepFile] = useState(false);
  const { deletes_file: deletesFile, size_bytes: size, embedded } = model;
  const choose = (keep: boolean) => {
    setKeepFile(keep);
    onChoose(keep);
  };
  return (
    <>
      <p>
        New requests for it get a 404 error. <Running model={model} />
      </p>
      {deletesFile ? (
        <>
          <p>
            Its downloaded file{size !== null && ` (${bytes(size)})`} is {keepFile ? 'kept.' : 'deleted.'}
          </p>
          <Checkbox checked={keepFile} onChange={choose}>
            Keep the file
          </Checkbox>
        </>
      ) : (
        embedded && <p>Its file is kept, because another model uses it or it is outside the models folder.</p>
      )}
      <p>Usage and receipts of past requests are kept.</p>
    </>
  );
}

function unloadModel(model: Model): void {
  const { id, origin, memory_bytes: memory } = model;
  void confirm({
    title: `Unload ${id}?`,
    action: 'Unload model',
    danger: false,
    children: (
      <>
        <p>
          {memory !== null && `Frees ${bytes(memory)} of memory. `}
          {model.downloaded !== null && 'Its file is kept. '}
          <Running model={model} />
        </p>
        <p>
          Requests for it are refused with 503
          {origin === 'file'
            ? ' until you load it again or the service restarts'
            : ', even after a restart, until you load it again'}
          .
        </p>
      </>
    ),
    run: () => act('unloadModel', { body: { model: id } }, { done: `${id} was unloaded` }),
  });
}

function Running({ model: { in_flight: running, embedded } }: { model: Model }) {
  if (running === 0) return 'No requests are running on it now.';
  const requests = `${counted(running, 'running request')} ${running === 1 ? 'has' : 'have'}`;
  return embedded
    ? `${requests} 10 seconds to finish.`
    : `${requests} 30 seconds to finish, unless drainMs is set to another time.`;
}
