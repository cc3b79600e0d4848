import { Boxes, Play } from 'lucide-react';
import type { ItemOf, ResponseOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Figure } from '../../components/card.tsx';
import { CodeTabs } from '../../components/code.tsx';
import { TextLink } from '../../components/link.tsx';
import { StandalonePage } from '../../components/standalone-page.tsx';
import { LoadProgress } from '../../components/state-badge.tsx';
import { EmptyState, Loaded, Notice, Skeleton, Skeletons } from '../../components/states.tsx';
import { closestToReady, outputLabel, returnsEmbeddings } from '../../format/modality.ts';
import { money } from '../../format/money.ts';
import { bytes, oneDecimal, whole } from '../../format/number.ts';
import { between, duration, wait } from '../../format/time.ts';
import { isAvailable } from '../../health/health-checks.ts';
import { samplesOf } from '../../snippets/samples.ts';
import { useFirstCall, type FirstCall } from './first-call.ts';
import { Steps } from './steps.tsx';

type Model = ItemOf<'listServedModels'>;

interface CallStepProps {
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
      <Loaded query={models} loading={<Skeletons heights={['h-72']} />}>
        {({ data }) => {
          const model = closestToReady(data.filter((one) => outputLabel(one) !== 'Rerank'));
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
  send: (body: Readonly<Record<string, unknown>>) => Promise<void>;
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
          icon={<Play />}
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

function FirstResponse({ call, model }: { call: FirstCall; model: Model }) {
  const { state, text, error } = call;
  const isRunning = state === 'running';
  return (
    <section aria-label="Response" className="rounded-lg border border-line">
      <div className="min-h-24 p-4 text-sm">
        {state === 'idle' && <ModelState model={model} />}
        {isRunning && text === '' && (
          <p className="text-ink-3">
            {returnsEmbeddings(model) ? 'Waiting for the response' : 'Waiting for the first token'}
          </p>
        )}
        {/* Announced when complete, not token by token. */}
        <p aria-live="polite" aria-busy={isRunning} className="break-words whitespace-pre-wrap">
          {text}
          {isRunning && text !== '' && (
            <span className="ml-0.5 inline-block h-4 w-1.5 animate-pulse-soft bg-accent align-text-bottom" />
          )}
        </p>
        {error !== null && (
          <div className={text === '' ? '' : 'mt-4'}>
            <Notice tone="bad">{error.message}</Notice>
          </div>
        )}
      </div>
      <Figures call={call} />
    </section>
  );
}

function ModelState({ model }: { model: Model }) {
  const { id, state, reason, retry_in_ms: retry } = model;
  switch (state) {
    case 'ready':
      return <p className="text-ink-3">The model is ready. The response will appear here.</p>;
    case 'idle':
      return <p className="text-ink-3">The request loads the model first. The response will appear here.</p>;
    case 'down':
      return (
        <Notice tone="warn" title={`${id} is down`}>
          {reason === null ? 'Check the service log for the reason.' : `${reason}.`}
          {retry !== null && ` Retrying in ${wait(retry)}.`}
        </Notice>
      );
    case 'unloaded':
      return (
        <Notice tone="warn" title={`${id} is not loaded`}>
          Load it on the <TextLink to={`/models?model=${encodeURIComponent(id)}`}>Models page</TextLink>.
        </Notice>
      );
    case 'downloading':
    case 'loading':
      return (
        <>
          <p className="mb-3 text-sm break-words">
            {state === 'loading'
              ? `Loading ${id} into memory.`
              : `Downloading ${id}. This is only needed once.`}
          </p>
          <LoadProgress status={model} />
        </>
      );
  }
}

/** The timing, tokens and cost of the response, from its receipt. */
function Figures({ call: { state, requestId } }: { call: FirstCall }) {
  const receipt = useRead(
    'getReceipt',
    { params: { id: requestId ?? '' } },
    { enabled: state === 'done' && requestId !== null },
  );
  const texts = receipt.data && textsOf(receipt.data.request);
  const none = receipt.isFetching ? <Skeleton className="h-7 w-16" /> : '—';
  return (
    <dl className="grid grid-cols-2 gap-x-4 gap-y-3 border-t border-line px-4 py-3 sm:grid-cols-4">
      <Figure label="Time to first token" value={texts?.ttft ?? none} />
      <Figure label="Throughput" value={texts?.speed ?? none} unit="tokens/s" />
      <Figure label="Tokens" value={texts?.tokens ?? none} />
      <Figure label="Cost" value={texts?.cost ?? none} />
    </dl>
  );
}

function textsOf(request: ResponseOf<'getReceipt'>['request']) {
  const ttft = between(request.started_at, request.first_token_at);
  const decode = between(request.first_token_at, request.ended_at);
  const { prompt_tokens: prompt, completion_tokens: completion, cost_usd: cost } = request;
  return {
    ttft: ttft === null ? '—' : duration(ttft),
    speed: decode === null || decode === 0 ? '—' : oneDecimal(((completion - 1) * 1000) / decode),
    tokens: `${whole(prompt)} in, ${whole(completion)} out`,
    cost: money(cost),
  };
}
