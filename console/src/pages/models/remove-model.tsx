import { useState } from 'react';
import { act } from '../../api/act.ts';
import type { ItemOf } from '../../api/client.ts';
import { confirm } from '../../components/confirm.tsx';
import { Checkbox } from '../../components/choices.tsx';
import { bytes, counted } from '../../format/number.ts';

type Model = ItemOf<'listServedModels'>;

/** Asks whether to remove a model, and removes it. Resolves to whether it was removed. */
export function removeModel(model: Model): Promise<boolean> {
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

/** Asks whether to unload a model, and unloads it. */
export function unloadModel(model: Model): void {
  const { id, origin, memory_bytes: memory } = model;
  void confirm({
    title: `Unload ${id}?`,
    action: 'Unload model',
    danger: false,
    children: (
      <>
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
