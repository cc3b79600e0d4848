import { useState } from 'react';
import { act } from '../../api/act.ts';
import type { ItemOf, ResponseOf } from '../../api/client.ts';
import { Segmented } from '../../components/choices.tsx';
import { confirm } from '../../components/confirm.tsx';
import { openOverlay } from '../../components/overlays.tsx';
import { OneTimeSecret, SecretDialog } from '../../components/secret-dialog.tsx';
import { Time } from '../../components/time.tsx';

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

/** Asks how long the previous secret of a key still works, then shows the new one once. */
export async function rotateKey(key: Key): Promise<void> {
  let keeps: Choice = CHOICES[2].value;
  let rotated: ResponseOf<'rotateKey'> | undefined;
  await confirm({
    title: `Rotate ${key.name}?`,
    action: 'Create new secret',
    danger: false,
    children: <Consequences apiKey={key} onChoose={(choice) => (keeps = choice)} />,
    run: async () => {
      const expiresAt = keeps === '0' ? null : new Date(Date.now() + Number(keeps)).toISOString();
      const given = { params: { id: key.id }, body: { previous_expires_at: expiresAt } };
      rotated = await act('rotateKey', given, {
        done: `Key ${key.name} rotated`,
        ifLost: `The response was lost, so ${key.name} may have a new secret that nobody has seen. Look at when it was rotated, and rotate it again if it was.`,
      });
      void openOverlay((close) => rotated && <NewSecret rotated={rotated} onClose={close} />);
    },
  });
}

function Consequences({ apiKey, onChoose }: { apiKey: Key; onChoose: (keeps: Choice) => void }) {
  const [keeps, setKeeps] = useState<Choice>(CHOICES[2].value);
  const choose = (choice: Choice) => {
    setKeeps(choice);
    onChoose(choice);
  };
  return (
    <>
      <p>The key gets a new secret, and keeps its ID, limits and usage.</p>
      <div>
        <p className="mb-1.5 text-xs font-medium">The current secret still works for</p>
        <Segmented
          label="The current secret still works for"
          value={keeps}
          choices={CHOICES}
          onChange={choose}
        />
      </div>
      {keeps === '0' && <p>Apps that use the current secret are refused within a second.</p>}
      {apiKey.previous !== null && (
        <p>
          The secret that ends in <code className="font-mono text-xs">{apiKey.previous.last_four}</code>, from
          the rotation before, stops working now.
        </p>
      )}
    </>
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
export function endPreviousSecret(key: Key): void {
  void confirm({
    title: `End the previous secret of ${key.name}?`,
    action: 'End secret',
    children: (
      <p>Within a second, new requests with the secret that ends in {key.previous?.last_four} are refused.</p>
    ),
    run: () =>
      act(
        'endPreviousSecret',
        { params: { id: key.id } },
        { done: `The previous secret of ${key.name} no longer works` },
      ),
  });
}
