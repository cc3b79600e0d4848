import { Code2, Settings2, SquareTerminal } from 'lucide-react';
import type { ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { Badge } from '../../components/badge.tsx';
import { Button, ButtonLink } from '../../components/button.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { capabilityText, generatesText, modalityText, outputLabel } from '../../format/modality.ts';
import { money } from '../../format/money.ts';
import { bytes, whole } from '../../format/number.ts';
import { useSession } from '../../state/session.tsx';
import { ModelActivity } from './model-activity.tsx';
import { playgroundWith, unusable } from './playground-link.ts';

type Model = ItemOf<'listServedModels'>;

interface ModelCardProps {
  model: Model;
  /** The served models. */
  models: readonly Model[];
  /** Time of the data, Unix milliseconds. */
  atMs: number;
  onCode: () => void;
  /** Opens the details. */
  onOpen: () => void;
}

/** A model: properties, prices and status, with links to code and playground if its definition is valid. */
export function ModelCard({ model, models, atMs, onCode, onOpen }: ModelCardProps) {
  const { user } = useSession();
  const slash = model.id.indexOf('/');
  return (
    <article
      aria-label={model.id}
      className="flex min-w-0 flex-1 flex-col rounded-xl border border-line bg-surface"
    >
      <header className="flex items-start justify-between gap-3 px-4 pt-4 sm:px-5">
        <div className="min-w-0">
          <p className="truncate text-xs text-ink-3">{model.id.slice(0, Math.max(0, slash))}</p>
          <div className="flex items-center gap-1">
            <h2 className="min-w-0 text-sm font-semibold break-words">{model.id.slice(slash + 1)}</h2>
            <span className="-my-2 shrink-0">
              <CopyButton text={model.id} what="model ID" />
            </span>
          </div>
        </div>
        <span className="flex shrink-0 flex-wrap items-center justify-end gap-2 text-xs leading-5">
          {model.is_default && models.length > 1 && <Badge tone="accent">Default</Badge>}
          {!generatesText(model) && <Badge>{outputLabel(model)}</Badge>}
          <StateBadge status={model} />
        </span>
      </header>
      {model.state !== 'ready' && (
        <div className="px-4 pt-3 sm:px-5">
          <ModelActivity model={model} models={models} atMs={atMs} />
        </div>
      )}
      {model.invalid ? <div className="h-4" /> : <Facts model={model} />}
      <footer className="mt-auto flex flex-wrap items-center justify-between gap-3 border-t border-line px-4 py-3 sm:px-5">
        <Load model={model} />
        <span className="flex flex-wrap gap-2">
          <Button
            size="small"
            icon={<Settings2 className="size-3.5" aria-hidden="true" />}
            aria-label={`${user.operator ? 'Manage' : 'Details of'} ${model.id}`}
            onClick={onOpen}
          >
            {user.operator ? 'Manage' : 'Details'}
          </Button>
          {!model.invalid && (
            <>
              <Button
                size="small"
                icon={<Code2 className="size-3.5" aria-hidden="true" />}
                aria-label={`Connect to ${model.id}`}
                onClick={onCode}
              >
                Connect
              </Button>
              <TryInPlayground model={model} />
            </>
          )}
        </span>
      </footer>
    </article>
  );
}

/** A link to the playground; disabled while the model is down. */
function TryInPlayground({ model }: { model: Model }) {
  const icon = <SquareTerminal className="size-3.5" aria-hidden="true" />;
  const label = `Try in playground: ${model.id}`;
  const why = unusable(model);
  if (why !== null) {
    return (
      <Button size="small" icon={icon} aria-label={label} title={why} disabled>
        Try in playground
      </Button>
    );
  }
  return (
    <ButtonLink size="small" icon={icon} aria-label={label} to={playgroundWith(model)}>
      Try in playground
    </ButtonLink>
  );
}

function Facts({ model }: { model: Model }) {
  const { pricing, context_length: context, max_completion_tokens: completion, quantization } = model;
  const generates = generatesText(model);
  // The badge says it for others.
  const modality = generates ? modalityText(model) : null;
  const capabilities = capabilityText(model);
  return (
    <dl className="grid grid-cols-2 gap-x-4 gap-y-3 px-4 py-4 text-sm sm:grid-cols-4 sm:px-5">
      <Fact label="Context length" unit="tokens">
        {context === null ? null : whole(context)}
      </Fact>
      <Price label="Prompt" usd={pricing.prompt} />
      {generates && pricing.input_cache_read !== null && (
        <Price label="Prompt (cached)" usd={pricing.input_cache_read} />
      )}
      {generates && <Price label="Completion" usd={pricing.completion} />}
      {generates && completion !== null && completion !== context && (
        <Fact label="Max completion" unit="tokens">
          {whole(completion)}
        </Fact>
      )}
      {modality !== null && <Fact label="Modality">{modality}</Fact>}
      {quantization !== null && <Fact label="Quantization">{quantization}</Fact>}
      {capabilities !== '' && <Fact label="Capabilities">{capabilities}</Fact>}
      {model.size_bytes !== null && <Fact label="File">{bytes(model.size_bytes)}</Fact>}
      {model.memory_bytes !== null && <Fact label="Memory in use">{bytes(model.memory_bytes)}</Fact>}
      {model.license !== null && <Fact label="License">{model.license}</Fact>}
    </dl>
  );
}

function Price({ label, usd }: { label: string; usd: string }) {
  return /[1-9]/.test(usd) ? (
    <Fact label={label} unit="per million tokens">
      {money(usd)}
    </Fact>
  ) : (
    <Fact label={label}>Free</Fact>
  );
}

/** A labeled value; null: unknown until the model is ready. */
function Fact({ label, unit, children }: { label: string; unit?: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-xs text-ink-3">{label}</dt>
      <dd className="truncate font-medium tabular-nums">
        {children ?? <span className="font-normal text-ink-3">—</span>}
        {children !== null && unit !== undefined && (
          <span className="block text-2xs font-normal text-ink-3">{unit}</span>
        )}
      </dd>
    </div>
  );
}

function Load({ model }: { model: Model }) {
  const { in_flight: inFlight, waiting, replicas, replicas_ready: ready } = model;
  return (
    <p className="text-xs text-ink-3 tabular-nums">
      {whole(inFlight)} in flight, {whole(waiting)} waiting
      {replicas > 1 && `; ${whole(ready)} of ${whole(replicas)} replicas ready`}
    </p>
  );
}
