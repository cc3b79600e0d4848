import { useState } from 'react';
import { act } from '../../api/act.ts';
import type { ItemOf, ResponseOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { TextButton } from '../../components/button.tsx';
import { Segmented } from '../../components/choices.tsx';
import { confirm } from '../../components/confirm.tsx';
import { useNow } from '../../components/now.ts';
import { openOverlay } from '../../components/overlays.tsx';
import { OneTimeSecret, SecretDialog } from '../../components/secret-dialog.tsx';
import { Skeleton } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { counted } from '../../format/number.ts';
import { LastUse } from './key-state.tsx';

type Key = ItemOf<'listKeys'>;

export function revokeKey(key: Key): void {
  void confirm({
    title: `Revoke ${key.name}?`,
    action: 'Revoke key',
    children: <Consequences target={key} />,
    run: () => act('revokeKey', { params: { id: key.id } }, { done: `Key ${key.name} revoked` }),
  });
}

/** Confirms revoking several keys, and lists those that were used lately. Resolves to whether they were revoked. */
export function revokeKeys(accountId: string, keys: readonly Key[]): Promise<boolean> {
  const what = counted(keys.length, 'key');
  return confirm({
    title: `Revoke ${what}?`,
    action: `Revoke ${what}`,
    children: <RecentUse keys={keys} />,
    run: () =>
      act(
        'revokeKeys',
        { body: { account_id: accountId, ids: keys.map(({ id }) => id) } },
        { done: ({ data }) => `${counted(data.length, 'key')} revoked` },
      ),
  });
}

/** How recent uses are pointed out, in milliseconds. */
const RECENT_MS = 7 * 86_400_000;

function RecentUse({ keys }: { keys: readonly Key[] }) {
  const now = useNow(60_000);
  const recent = keys.filter(({ last_used_at: at }) => at !== null && Date.parse(at) > now - RECENT_MS);
  return (
    <>
      {recent.length > 0 ? (
        <>
          <p>
            {recent.length === 1 ? 'One of them was' : `${recent.length} of them were`} used in the last 7
            days:
          </p>
          <ul className="max-h-40 space-y-0.5 overflow-y-auto">
            {recent.map(({ id, name, last_used_at: at }) => (
              <li key={id} className="flex justify-between gap-3">
                <span className="truncate font-medium">{name}</span>
                <span className="shrink-0 text-ink-3">
                  <Time at={at} relative />
                </span>
              </li>
            ))}
          </ul>
        </>
      ) : (
        <p>None of them was used in the last 7 days.</p>
      )}
      <p>
        Within a second, new requests with these keys are refused and running ones end. This cannot be undone.
      </p>
    </>
  );
}

function Consequences({ target }: { target: Key }) {
  const { id, account_id, last_used_at } = target;
  const days = useRead('readUsage', { query: { account_id, key_id: id, by: 'day' } });
  const [today] = useState(() => new Date().toISOString().slice(0, 10));
  const rows = days.data?.data;
  const month = rows?.reduce((sum, { requests }) => sum + requests, 0) ?? 0;
  const ofToday = rows?.find(({ day }) => day === today)?.requests ?? 0;
  if (last_used_at === null) {
    return <p>This key was never used. Revoking it cannot be undone.</p>;
  }
  return (
    <>
      <p>
        Last used <LastUse apiKey={target} />.{' '}
        {rows === undefined ? (
          days.isPending && <Skeleton className="mt-1 h-4 w-64" />
        ) : (
          <>
            The key sent <strong>{counted(ofToday, 'request')}</strong> today and{' '}
            <strong>{counted(month, 'request')}</strong> this month (UTC).
          </>
        )}
      </p>
      <p>
        Within a second, new requests with this key are refused and running ones end. This cannot be undone.
      </p>
    </>
  );
}

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
    children: <RotationConsequences apiKey={key} onChoose={(choice) => (keeps = choice)} />,
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

function RotationConsequences({ apiKey, onChoose }: { apiKey: Key; onChoose: (keeps: Choice) => void }) {
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

export function PreviousSecret({ apiKey: key, mayEnd }: { apiKey: Key; mayEnd: boolean }) {
  const { previous } = key;
  if (previous === null) return null;
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
        {mayEnd && (
          <>
            {' · '}
            <TextButton onClick={() => endPreviousSecret(key)}>End now</TextButton>
          </>
        )}
      </span>
    </>
  );
}

function endPreviousSecret(key: Key): void {
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
