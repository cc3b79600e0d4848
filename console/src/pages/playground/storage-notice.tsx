import { useState } from 'react';
import { Confirm } from '../../components/confirm.tsx';
import { notify } from '../../notify.ts';
import { useActions, usePlayground } from './state.tsx';
import { isEmpty } from './draft.ts';

/** States where the playground is stored, or that it is not, and clears it. */
export function StorageNotice() {
  const { draft, isStored } = usePlayground();
  const { clear } = useActions();
  const [asking, setAsking] = useState(false);
  return (
    <p className="mt-2 text-2xs text-ink-3">
      {isStored ? (
        'Stored only in this browser, until you sign out.'
      ) : (
        <span role="alert" className="text-bad">
          Not stored: the storage of this browser is full or blocked. The playground is lost when you close or
          reload this page.
        </span>
      )}{' '}
      <button
        type="button"
        disabled={isEmpty(draft)}
        onClick={() => setAsking(true)}
        className="rounded font-medium text-ink-2 underline-offset-2 not-disabled:hover:underline disabled:text-ink-3"
      >
        Clear
      </button>
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title="Clear the playground?"
        action="Clear"
        onConfirm={() => {
          setAsking(false);
          clear();
          notify.success('Playground cleared');
        }}
      >
        <p>Deletes all messages, completions and parameters from this browser. Receipts are kept.</p>
      </Confirm>
    </p>
  );
}
