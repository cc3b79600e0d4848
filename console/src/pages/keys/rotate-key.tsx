import { useState } from 'react';
import type { ItemOf, ResponseOf } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Segmented } from '../../components/choices.tsx';
import { Confirm } from '../../components/confirm.tsx';
import { OneTimeSecret } from '../../components/one-time-secret.tsx';
import { SecretDialog } from '../../components/secret-dialog.tsx';
import { Time } from '../../components/time.tsx';
import { useShowSecret } from '../../state/secrets.tsx';

type Key = ItemOf<'listKeys'>;

const HOUR_MS = 3_600_000;

/** How long the previous secret still works, in milliseconds. */
const CHOICES = [
  { value: '0', label: 'Not at all' },
  { value: String(HOUR_MS), label: '1 hour' },
  { value: String(24 * HOUR_MS), label: '1 day' },
  { value: String(7 * 24 * HOUR_MS), label: '7 days' },
] as const;

type Choice = (typeof CHOICES)[number]['value'];

interface RotateKeyProps {
  /** Null: closed. */
  target: Key | null;
  onClose: () => void;
}

/** Asks how long the previous secret of a key still works, then shows the new one once. */
export function RotateKey({ target, onClose }: RotateKeyProps) {
  const [keeps, setKeeps] = useState<Choice>(CHOICES[2].value);
  const show = useShowSecret();
  const rotate = useAction('rotateKey', {
    changes: ['listKeys', 'getKey'],
    done: ({ name }) => `Key ${name} rotated`,
    onSuccess: (rotated) => show((close) => <NewSecret rotated={rotated} onClose={close} />),
  });
  return (
    <Confirm
      open={target !== null}
      onClose={onClose}
      title={`Rotate ${target?.name ?? 'the key'}?`}
      action="Create new secret"
      danger={keeps === '0'}
      request={rotate}
      onConfirm={() => {
        if (target === null) return;
        const expiresAt = keeps === '0' ? null : new Date(Date.now() + Number(keeps)).toISOString();
        rotate.mutate(
          { params: { id: target.id }, body: { previous_expires_at: expiresAt } },
          { onSuccess: onClose },
        );
      }}
    >
      <p>The key gets a new secret, and keeps its ID, limits and usage.</p>
      <div>
        <p className="mb-1.5 text-xs font-medium">The current secret still works for</p>
        <Segmented
          label="The current secret still works for"
          value={keeps}
          choices={CHOICES}
          onChange={setKeeps}
        />
      </div>
      {keeps === '0' && <p>Apps that use the current secret are refused within a second.</p>}
      {target?.previous != null && (
        <p>
          The secret that ends in <code className="font-mono text-xs">{target.previous.last_four}</code>, from
          the rotation before, stops working now.
        </p>
      )}
    </Confirm>
  );
}

/** Shows the new secret of a key once. */
function NewSecret({ rotated, onClose }: { rotated: ResponseOf<'rotateKey'>; onClose: () => void }) {
  return (
    <SecretDialog
      title={`New secret of ${rotated.name}`}
      what="key"
      ifLost="The new secret cannot be shown again. If you lose it, rotate the key again."
      onClose={onClose}
    >
      {(onCopied) => (
        <OneTimeSecret text={rotated.key} what="key" label="API key" onCopied={onCopied}>
          Copy this key now. It is shown only once.{' '}
          {rotated.previous === null ? (
            'The previous secret no longer works.'
          ) : (
            <>
              The previous secret works until <Time at={rotated.previous.expires_at} />. Replace it in your
              apps before then.
            </>
          )}
        </OneTimeSecret>
      )}
    </SecretDialog>
  );
}

/** The previous secret of a key, with a button that ends it. */
export function PreviousSecret({
  previous,
  onEnd,
}: {
  previous: NonNullable<Key['previous']>;
  /** Null: the user may not end it. */
  onEnd: (() => void) | null;
}) {
  return (
    <>
      <span className="block">
        <code className="font-mono text-xs">…{previous.last_four}</code> works until{' '}
        <Time at={previous.expires_at} />
      </span>
      <span className="block text-ink-3">
        {previous.last_used_at === null ? (
          'Not used since the rotation'
        ) : (
          <>
            Last used <Time at={previous.last_used_at} relative />
          </>
        )}
        {onEnd !== null && (
          <>
            {' · '}
            <button
              type="button"
              className="font-medium text-accent underline-offset-2 hover:underline"
              onClick={onEnd}
            >
              End now
            </button>
          </>
        )}
      </span>
    </>
  );
}

/** Confirms ending the previous secret of a key. */
export function EndPreviousSecret({ target, onClose }: RotateKeyProps) {
  const end = useAction('endPreviousSecret', {
    changes: ['listKeys', 'getKey'],
    done: ({ name }) => `The previous secret of ${name} no longer works`,
  });
  return (
    <Confirm
      open={target !== null}
      onClose={onClose}
      title={`End the previous secret of ${target?.name ?? 'the key'}?`}
      action="End secret"
      request={end}
      onConfirm={() => {
        if (target !== null) end.mutate({ params: { id: target.id } }, { onSuccess: onClose });
      }}
    >
      <p>
        Within a second, new requests with the secret that ends in {target?.previous?.last_four} are refused.
      </p>
    </Confirm>
  );
}
