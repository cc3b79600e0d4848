import type { ItemOf } from '../../api/client.ts';
import { Time } from '../../components/time.tsx';

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
