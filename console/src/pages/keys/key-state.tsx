import type { ItemOf } from '../../api/client.ts';
import { Badge, Status, type Tone } from '../../components/badge.tsx';
import { Time } from '../../components/time.tsx';

type Key = ItemOf<'listKeys'>;

const STATES: Readonly<Record<Key['status'], { tone: Tone; word: string }>> = {
  live: { tone: 'good', word: 'Active' },
  expired: { tone: 'neutral', word: 'Expired' },
  revoked: { tone: 'bad', word: 'Revoked' },
  damaged: { tone: 'bad', word: 'Damaged' },
};

/** The state of a key as a dot and a word. */
export function KeyState({ apiKey: { status } }: { apiKey: Key }) {
  const { tone, word } = STATES[status];
  return <Status tone={tone}>{word}</Status>;
}

/** A key with only its prefix and last four characters. */
export function MaskedKey({ apiKey: { prefix, last_four } }: { apiKey: Pick<Key, 'prefix' | 'last_four'> }) {
  return (
    <code className="font-mono text-xs whitespace-nowrap text-ink-2">
      {prefix}
      <span aria-hidden="true">…</span>
      <span className="sr-only"> to </span>
      {last_four}
    </code>
  );
}

/** The tags of a key. `wraps`: on several lines, all of them. */
export function Tags({ tags, wraps = false }: { tags: readonly string[]; wraps?: boolean }) {
  const shown = wraps ? tags : tags.slice(0, 2);
  return (
    <span
      className={wraps ? 'flex flex-wrap justify-end gap-1' : 'flex max-w-48 gap-1'}
      title={wraps ? undefined : tags.join(', ')}
    >
      {shown.map((tag) => (
        <Badge key={tag}>
          <span className="max-w-24 truncate">{tag}</span>
        </Badge>
      ))}
      {tags.length > shown.length && (
        <span className="text-xs text-ink-3">+{tags.length - shown.length}</span>
      )}
    </span>
  );
}

/** When, by which program and from where a key was last used. */
export function LastUse({ apiKey: key }: { apiKey: ItemOf<'listKeys'> }) {
  return (
    <>
      <Time at={key.last_used_at} relative />
      {key.last_used_client !== null && <> by {key.last_used_client}</>}
      {key.last_used_ip !== null && (
        <>
          {' '}
          from <code className="inline-block max-w-full font-mono text-xs break-all">{key.last_used_ip}</code>
        </>
      )}
    </>
  );
}
