import { useId, useState } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import { Notice } from '../../components/states.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { ModelActivity } from './model-activity.tsx';
import { ModelDetails } from './model-details.tsx';
import { OfferForm, ServerForm } from './model-forms.tsx';
import { ModelReplicas } from './model-replicas.tsx';
import { playgroundWith } from './playground-link.ts';
import { RemoveModel, UnloadModel } from './remove-model.tsx';

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

/** A drawer with one model, for operators: its details, and the actions on it. */
export default function ModelDialog({ model, models, atMs, onClose }: ModelDialogProps) {
  const form = useId();
  const [mode, setMode] = useMode(model);
  const [asking, setAsking] = useState<'remove' | 'unload' | null>(null);
  const update = useAction('updateModel', {
    changes: ['listServedModels'],
    done: ({ id }) => `${id} was updated`,
    quiet: true,
  });
  const addReplica = useAction('addReplica', {
    changes: ['listServedModels', 'listEngines'],
    done: 'The replica was added',
    quiet: true,
  });
  // In this component, because the confirmation is unmounted when the model disappears from the list.
  const remove = useAction('removeModel', {
    changes: ['listServedModels', 'listCatalog', 'listEngines'],
    done: ({ id }) => `${id} was removed`,
  });
  const view = () => setMode('view');
  const show = (form: 'edit' | 'replica') => {
    update.reset();
    addReplica.reset();
    setMode(form);
  };
  const id = model?.id ?? '';
  const isViewing = mode === 'view';
  return (
    <Dialog
      side
      open={model !== null}
      onClose={isViewing ? onClose : view}
      modal={!isViewing}
      title={mode === 'edit' ? `Edit ${id}` : mode === 'replica' ? `Add a replica of ${id}` : id}
      actions={
        model === null ? undefined : isViewing ? (
          <Actions
            model={model}
            onRemove={() => setAsking('remove')}
            onUnload={() => setAsking('unload')}
            onEdit={() => show('edit')}
          />
        ) : (
          <FormActions
            form={form}
            action={mode === 'edit' ? 'Save' : 'Add replica'}
            busy={update.isPending || addReplica.isPending}
            onCancel={view}
          />
        )
      }
    >
      {model !== null && isViewing && (
        <div className="space-y-5">
          <ModelActivity model={model} models={models} atMs={atMs} />
          {model.origin === 'file' && (
            <Notice title="Defined in the configuration file">
              To change or remove the model, edit the file and restart the service.
            </Notice>
          )}
          <ModelDetails model={model} />
          {!model.embedded && !model.invalid && <ModelReplicas model={model} onAdd={() => show('replica')} />}
        </div>
      )}
      {model !== null && mode === 'edit' && (
        <OfferForm
          id={form}
          model={model}
          error={update.error}
          onSubmit={(offer) => update.mutate({ body: { model: id, ...offer } }, { onSuccess: view })}
        />
      )}
      {model !== null && mode === 'replica' && (
        <ServerForm
          id={form}
          error={addReplica.error}
          onSubmit={(replica) => addReplica.mutate({ body: { model: id, replica } }, { onSuccess: view })}
        />
      )}
      {model !== null && (
        <>
          <RemoveModel
            model={model}
            open={asking === 'remove'}
            onClose={() => setAsking(null)}
            request={remove}
            onRemove={(keepFile) =>
              remove.mutate(
                { body: { model: id, keep_file: keepFile } },
                {
                  onSuccess: () => {
                    setAsking(null);
                    onClose();
                  },
                },
              )
            }
          />
          <UnloadModel model={model} open={asking === 'unload'} onClose={() => setAsking(null)} />
        </>
      )}
    </Dialog>
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
  onRemove: () => void;
  onUnload: () => void;
  onEdit: () => void;
}

function Actions({ model, onRemove, onUnload, onEdit }: ActionsProps) {
  const { id, state } = model;
  const isAdded = model.origin === 'added';
  const setDefault = useAction('setDefaultModel', {
    changes: ['listServedModels'],
    done: `${id} is now the default model`,
  });
  return (
    <>
      {isAdded && (
        <Button kind="danger" onClick={onRemove}>
          Remove
        </Button>
      )}
      {model.embedded && (state === 'ready' || state === 'loading') && (
        <Button onClick={onUnload}>Unload</Button>
      )}
      {!model.is_default && !model.invalid && (
        <Button busy={setDefault.isPending} onClick={() => setDefault.mutate({ body: { model: id } })}>
          Make default
        </Button>
      )}
      {isAdded && !model.invalid && <Button onClick={onEdit}>Edit</Button>}
      {state === 'ready' && (
        <ButtonLink kind="primary" to={playgroundWith(model)}>
          Try in playground
        </ButtonLink>
      )}
    </>
  );
}
