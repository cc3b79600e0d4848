import { Boxes, Play } from 'lucide-react';
import type { Element } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { CodeTabs } from '../../components/code.tsx';
import { Front } from '../../components/front.tsx';
import { Empty, Failed, Skeleton } from '../../components/states.tsx';
import { samplesOf } from '../../snippets/samples.ts';
import { AnswerOf } from './answer.tsx';
import { useFirstCall, type FirstCall } from './first-call.ts';
import { Steps } from './steps.tsx';

type Model = Element<'listServedModels'>;

interface CallStepProps {
  /** The key that has just been made. */
  apiKey: string;
  /** Where callers reach the service, without `/v1`. */
  baseUrl: string;
}

/** The third step: a call in three languages, which the browser sends as well. */
export function CallStep({ apiKey, baseUrl }: CallStepProps) {
  const models = useRead('listServedModels', undefined, { everyMs: 1000 });
  const [call, send] = useFirstCall(apiKey);
  const model = models.data && furthest(models.data.data);
  return (
    <Front
      wide
      title="The first call"
      hint="Any client of the OpenAI interface works: it takes this address, this key and the name of a model."
      above={<Steps at={2} />}
      below={
        call.state === 'done' ? undefined : (
          <ButtonLink kind="quiet" to="/keys">
            Skip to the console
          </ButtonLink>
        )
      }
    >
      {models.error !== null && model === undefined ? (
        <Failed error={models.error} retry={() => void models.refetch()} />
      ) : models.data === undefined ? (
        <div role="status">
          <span className="sr-only">Loading</span>
          <Skeleton className="h-72 w-full" />
        </div>
      ) : model === undefined ? (
        <Empty
          icon={Boxes}
          title="No model is configured"
          action={<ButtonLink to="/keys">To the console</ButtonLink>}
        >
          Name one in the configuration of the service, and start it again.
        </Empty>
      ) : (
        <TryOut {...{ apiKey, baseUrl, model, call, send }} />
      )}
    </Front>
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
  const request = requestTo(model.id);
  const isDone = call.state === 'done';
  return (
    <div className="space-y-5">
      <CodeTabs
        label="First call"
        samples={samplesOf({ baseUrl, key: apiKey, request: { ...request, stream: true } })}
      />
      <AnswerOf call={call} model={model} />
      <div className="flex flex-col gap-2 sm:flex-row sm:justify-end">
        <Button
          kind={isDone ? 'plain' : 'primary'}
          icon={<Play className="size-4" aria-hidden="true" />}
          busy={call.state === 'running'}
          disabled={model.state !== 'ready'}
          onClick={() => send(request)}
        >
          {call.state === 'idle' || call.state === 'running' ? 'Send it from here' : 'Send it again'}
        </Button>
        {isDone && (
          <ButtonLink kind="primary" to="/keys">
            Open the console
          </ButtonLink>
        )}
      </div>
    </div>
  );
}

/** Short, so that the smallest model answers it within seconds; and the same each time. */
function requestTo(model: string) {
  return {
    model,
    messages: [
      { role: 'system', content: 'You answer in one short sentence.' },
      { role: 'user', content: 'What is a sluice?' },
    ],
    max_tokens: 60,
    temperature: 0,
  };
}

const NEARNESS = ['ready', 'loading', 'downloading', 'down'];

/** The first of the models that are nearest to answering. */
function furthest(models: readonly Model[]): Model | undefined {
  return models.toSorted((a, b) => NEARNESS.indexOf(a.state) - NEARNESS.indexOf(b.state))[0];
}
