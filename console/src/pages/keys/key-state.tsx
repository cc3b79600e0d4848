import type { Element } from '../../api/client.ts';
import { Status, type Tone } from '../../components/badge.tsx';

type Key = Element<'listKeys'>;

const STATES: Readonly<Record<Key['status'], { tone: Tone; word: string }>> = {
  live: { tone: 'good', word: 'Live' },
  expired: { tone: 'neutral', word: 'Expired' },
  revoked: { tone: 'bad', word: 'Revoked' },
};

/** Whether a key opens anything, as a dot and a word. */
export function KeyState({ of: { status } }: { of: Key }) {
  const { tone, word } = STATES[status];
  return <Status tone={tone}>{word}</Status>;
}

/** A key as far as it may be seen: where it begins and where it ends. */
export function MaskedKey({ of: { prefix, last_four } }: { of: Pick<Key, 'prefix' | 'last_four'> }) {
  return (
    <code className="font-mono text-xs whitespace-nowrap text-ink-2">
      {prefix}
      <span aria-hidden="true">…</span>
      <span className="sr-only"> to </span>
      {last_four}
    </code>
  );
}
