import { useState } from 'react';
import { Confirm } from '../../components/confirm.tsx';
import { say } from '../../components/toast.tsx';
import { useActions, usePlayground } from './context.ts';
import { isEmpty } from './draft.ts';

/** Says where all this is kept, and takes it away. */
export function Kept() {
  const { draft } = usePlayground();
  const { clear } = useActions();
  const [asking, setAsking] = useState(false);
  return (
    <p className="mt-2 text-2xs text-ink-3">
      Stays in this browser; sent in your requests alone.{' '}
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
          say.good('The playground is empty.');
        }}
      >
        <p>What was typed and answered, and all parameters, go from this browser. Receipts stay.</p>
      </Confirm>
    </p>
  );
}
