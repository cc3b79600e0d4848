import { Trash2 } from 'lucide-react';
import { act } from '../../api/act.ts';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button, IconButton } from '../../components/button.tsx';
import { confirm } from '../../components/confirm.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { SkeletonRows } from '../../components/states.tsx';
import { TextLink } from '../../components/link.tsx';

type Model = ItemOf<'listServedModels'>;
type Replica = ItemOf<'listEngines'>;

const EVERY_MS = 2000;

/** The servers of a model. If the model was added at run time, servers can be added and removed. */
export function ModelReplicas({ model, onAdd }: { model: Model; onAdd: () => void }) {
  const query = useRead('listEngines', undefined, { everyMs: EVERY_MS });
  const isAdded = model.origin === 'added';
  return (
    <section className="space-y-2">
      <header className="flex items-center justify-between gap-3">
        <h3 className="text-sm font-semibold">Replicas</h3>
        {isAdded && (
          <Button size="small" onClick={onAdd}>
            Add replica
          </Button>
        )}
      </header>
      <Loaded query={query} loading={<SkeletonRows rows={1} />}>
        {({ data }) => {
          const replicas = data.filter((replica) => replica.model === model.id);
          return (
            <ul className="divide-y divide-line" aria-label="Replicas">
              {replicas.map((replica) => (
                <li key={replica.name} className="flex items-center justify-between gap-3 py-2 text-sm">
                  <span className="min-w-0">
                    <TextLink
                      to={`/operator/engines?engine=${encodeURIComponent(`${replica.model} ${replica.name}`)}`}
                    >
                      <span className="wrap-anywhere">{replica.url ?? replica.name}</span>
                    </TextLink>
                    <span className="block text-xs text-ink-3">
                      {replica.dialect}
                      {/* If the model is down, the reason is already shown above. */}
                      {replica.reason !== null && model.state !== 'down' && `: ${replica.reason}`}
                    </span>
                  </span>
                  <span className="flex shrink-0 items-center gap-1 text-xs">
                    <StateBadge status={replica} />
                    {isAdded && replicas.length > 1 && (
                      <IconButton
                        label={`Remove ${replica.url ?? replica.name}`}
                        onClick={() => removeReplica(replica)}
                      >
                        <Trash2 className="size-4" aria-hidden="true" />
                      </IconButton>
                    )}
                  </span>
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
      <p className="text-xs text-ink-3">Open a replica to drain or resume it.</p>
    </section>
  );
}

/** Asks whether to remove a replica, and removes it. */
function removeReplica({ model, name, url }: Replica): void {
  void confirm({
    title: `Remove this replica of ${model}?`,
    action: 'Remove replica',
    children: (
      <p className="wrap-anywhere">
        All instances stop sending new requests to {url}. Running requests have 30 seconds to finish, unless
        drainMs is set to another time.
      </p>
    ),
    run: () => act('removeReplica', { body: { model, name } }, { done: 'The replica was removed' }),
  });
}
