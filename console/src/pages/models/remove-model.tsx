import { useState, type ComponentProps } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Checkbox } from '../../components/choices.tsx';
import { Confirm } from '../../components/confirm.tsx';
import { bytes, counted } from '../../format/number.ts';

type Model = ItemOf<'listServedModels'>;

interface ConfirmProps {
  model: Model;
  open: boolean;
  onClose: () => void;
}

/** Asks whether to remove a model. */
export function RemoveModel({
  model,
  open,
  onClose,
  request,
  onRemove,
}: ConfirmProps &
  Pick<ComponentProps<typeof Confirm>, 'request'> & { onRemove: (keepFile: boolean) => void }) {
  const [keepFile, setKeepFile] = useState(false);
  const { id, deletes_file: deletesFile, size_bytes: size, embedded } = model;
  return (
    <Confirm
      open={open}
      onClose={onClose}
      title={`Remove ${id}?`}
      action="Remove model"
      request={request}
      onConfirm={() => onRemove(keepFile)}
    >
      <p>
        New requests for it get a 404 error. <Running model={model} />
      </p>
      {deletesFile ? (
        <>
          <p>
            Its downloaded file{size !== null && ` (${bytes(size)})`} is {keepFile ? 'kept.' : 'deleted.'}
          </p>
          <Checkbox checked={keepFile} onChange={setKeepFile}>
            Keep the file
          </Checkbox>
        </>
      ) : (
        embedded && <p>Its file is kept, because another model uses it or it is outside the models folder.</p>
      )}
      <p>Usage and receipts of past requests are kept.</p>
    </Confirm>
  );
}

/** Asks whether to unload a model, and unloads it. */
export function UnloadModel({ model, open, onClose }: ConfirmProps) {
  const unload = useAction('unloadModel', {
    changes: ['listServedModels', 'listCatalog', 'listEngines'],
    done: ({ id }) => `${id} was unloaded`,
  });
  const { id, origin, memory_bytes: memory } = model;
  return (
    <Confirm
      open={open}
      onClose={onClose}
      title={`Unload ${id}?`}
      action="Unload model"
      danger={false}
      request={unload}
      onConfirm={() => unload.mutate({ body: { model: id } }, { onSuccess: onClose })}
    >
      <p>
        {memory !== null && `Frees ${bytes(memory)} of memory. `}Its file is kept. <Running model={model} />
      </p>
      <p>
        Requests for it are refused with 503
        {origin === 'file'
          ? ' until you load it again or the service restarts'
          : ', even after a restart, until you load it again'}
        .
      </p>
    </Confirm>
  );
}

function Running({ model: { in_flight: running, embedded } }: { model: Model }) {
  if (running === 0) return 'No requests are running on it now.';
  const requests = `${counted(running, 'running request')} ${running === 1 ? 'has' : 'have'}`;
  return embedded
    ? `${requests} 10 seconds to finish.`
    : `${requests} 30 seconds to finish, unless drainMs is set to another time.`;
}
