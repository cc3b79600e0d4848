import { act } from '../../api/act.ts';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { EngineOutput } from '../../components/engine-output.tsx';
import { EditDialog } from '../../components/edit-dialog.tsx';
import { Notice } from '../../components/states.tsx';
import { openConnect } from '../../connect/open-connect.tsx';
import { returnsEmbeddings } from '../../format/modality.ts';
import { useServiceScope } from '../../state/scope.ts';
import { useSession } from '../../state/session.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { ModelActivity } from './model-activity.tsx';
import { ModelDetails } from './model-details.tsx';
import { NEW_SERVER, offerChange, offerDraftOf, offerOf, serverOf, type ServerDraft } from './model-draft.ts';
import { KeepField, OfferFields, ServerFields } from './model-forms.tsx';
import { ModelMeasured } from './model-measured.tsx';
import { ModelReplicas } from './model-replicas.tsx';
import { playgroundWith } from './playground-link.ts';
import { removeModel, unloadModel } from './remove-model.tsx';

type Model = ItemOf<'listServedModels'>;

interface ModelDialogProps {
  /** Null: closed. */
  model: Model | null;
  /** The served models. */
  models: readonly Model[];
  /** Time of the data, Unix milliseconds. */
  atMs: number;
  onClose: () => void;
}

/** A drawer with one model: its details, what was measured, and for operators the actions on it. */
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

/** The last output of the engine or program of a model. */
function ModelOutput({ id }: { id: string }) {
  const { data } = useRead('listEngines', undefined, { everyMs: 2000 });
  const replica = data?.data.find(({ model }) => model === id);
  return replica && <EngineOutput replica={replica} />;
}

/** Changes the price and the context length of a model, and whether it stays in memory. */
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
      {(draft, set) => (
        <>
          <OfferFields embeds={returnsEmbeddings(model)} draft={draft} onChange={set} />
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
      {(draft, set) => <ServerFields prefix={REPLICA} draft={draft} onChange={set} />}
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

interface ActionsProps {
  model: Model;
  onRemoved: () => void;
  onEdit: () => void;
}

function Actions({ model, onRemoved, onEdit }: ActionsProps) {
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
      {model.state === 'ready' && (
        <ButtonLink kind="primary" to={playgroundWith(model)}>
          Try in playground
        </ButtonLink>
      )}
    </>
  );
}
