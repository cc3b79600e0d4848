import { Boxes, Play } from 'lucide-react';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { CodeTabs } from '../../components/code.tsx';
import { StandalonePage } from '../../components/standalone-page.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { EmptyState, Skeleton } from '../../components/states.tsx';
import { generatesText, returnsEmbeddings } from '../../format/modality.ts';
import { bytes } from '../../format/number.ts';
import { samplesOf } from '../../snippets/samples.ts';
import { isAvailable } from '../../health/health-checks.ts';
import { FirstResponse } from './first-response.tsx';
import { useFirstCall, type FirstCall } from './first-call.ts';
import { Steps } from './steps.tsx';

type Model = ItemOf<'listServedModels'>;

interface CallStepProps {
  /** The new key. */
  apiKey: string;
  /** URL of the service without `/v1`. */
  baseUrl: string;
}

/** Step 3: code samples of a first request, which can be sent from the browser. */
export function CallStep({ apiKey, baseUrl }: CallStepProps) {
  const models = useRead('listServedModels', undefined, { everyMs: 1000 });
  const [call, send] = useFirstCall(apiKey);
  return (
    <StandalonePage
      wide
      title="Send your first request"
      hint="Any OpenAI-compatible client works with this base URL, API key and model."
      above={<Steps at={2} />}
      below={
        call.state === 'done' ? undefined : (
          <ButtonLink kind="quiet" to="/">
            Skip to console
          </ButtonLink>
        )
      }
    >
      <Loaded
        query={models}
        loading={
          <div role="status">
            <span className="sr-only">Loading</span>
            <Skeleton className="h-72 w-full" />
          </div>
        }
      >
        {({ data }) => {
          const model = closestToReady(data);
          return model === undefined ? (
            <EmptyState
              icon={Boxes}
              title="No models configured"
              action={<ButtonLink to="/">Go to console</ButtonLink>}
            >
              Add a model on the Models page of the console.
            </EmptyState>
          ) : (
            <TryOut {...{ apiKey, baseUrl, model, call, send }} />
          );
        }}
      </Loaded>
    </StandalonePage>
  );
}

function TryOut({
  apiKey,
  baseUrl,
  model,
  call,
  send,
}: CallStepProps & {
  model: Model;
  call: FirstCall;
  send: (body: Readonly<Record<string, unknown>>) => void;
}) {
  const request = requestTo(model);
  const isDone = call.state === 'done';
  return (
    <div className="space-y-5">
      <CodeTabs
        label="First request"
        samples={samplesOf({
          baseUrl,
          key: apiKey,
          request: returnsEmbeddings(model) ? request : { ...request, stream: true },
        })}
      />
      <FirstResponse call={call} model={model} />
      {isDone && <BetterModel />}
      <div className="flex flex-col gap-2 sm:flex-row sm:justify-end">
        <Button
          kind={isDone ? 'plain' : 'primary'}
          icon={<Play className="size-4" aria-hidden="true" />}
          busy={call.state === 'running'}
          disabled={!isAvailable(model)}
          onClick={() => send(request)}
        >
          {call.state === 'idle' || call.state === 'running' ? 'Send request' : 'Send again'}
        </Button>
        {isDone && (
          <ButtonLink kind="primary" to="/">
            Open console
          </ButtonLink>
        )}
      </div>
    </div>
  );
}

/** A catalog model that is better than the default model and fits this machine. */
function BetterModel() {
  const health = useRead('readHealth', undefined);
  const better = health.data?.recommended_model;
  if (!better) return null;
  return (
    <section className="space-y-2">
      <h2 className="text-sm font-semibold">A better model fits the machine of this service</h2>
      <p className="text-sm text-ink-3">
        {better.id} is a {bytes(better.size_bytes)} download and uses {bytes(better.memory_bytes)} of memory.
      </p>
      <ButtonLink size="small" to={`/models?add=${encodeURIComponent(better.id)}`}>
        Add this model
      </ButtonLink>
    </section>
  );
}

/** A short request that even a slow model completes within seconds. */
function requestTo(model: Model) {
  if (returnsEmbeddings(model)) return { model: model.id, input: 'What is a sluice?' };
  return {
    model: model.id,
    messages: [
      { role: 'system', content: 'Answer in one short sentence.' },
      { role: 'user', content: 'What is a sluice?' },
    ],
    max_tokens: 60,
    ...model.recommended_sampling,
  };
}

const STATE_ORDER = ['ready', 'idle', 'loading', 'downloading', 'unloaded', 'down'];

/** Returns the first model that is closest to being ready, one that generates text if there is any. */
function closestToReady(models: readonly Model[]): Model | undefined {
  const generating = models.filter(generatesText);
  return (generating.length > 0 ? generating : models.filter(returnsEmbeddings)).toSorted(
    (a, b) => STATE_ORDER.indexOf(a.state) - STATE_ORDER.indexOf(b.state),
  )[0];
}
