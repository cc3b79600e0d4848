import { useMutation } from '@tanstack/react-query';
import { Waypoints } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { ApiError } from '../../api/client.ts';
import { embedFor } from '../../api/playground-key.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { CodeTabs } from '../../components/code.tsx';
import { TextArea } from '../../components/field.tsx';
import { Form, FormError } from '../../components/form.tsx';
import { TextLink } from '../../components/link.tsx';
import { Select } from '../../components/select.tsx';
import { EmptyState } from '../../components/states.tsx';
import { counted, fixed, whole } from '../../format/number.ts';
import { KEY_VARIABLE, samplesOf } from '../../snippets/samples.ts';
import { useSession } from '../../state/session.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { NotReady } from './chat.tsx';
import { CodeWindow } from './code-window.tsx';
import { cosine } from './cosine.ts';
import { initialModel, summaryOf, type Model } from './model-text.ts';
import { asApiError } from './store.ts';

interface CompareTextsProps {
  /** The account that is charged. */
  accountId: string;
  models: readonly Model[];
  isCodeOpen: boolean;
  onCloseCode: () => void;
}

export function CompareTexts({ accountId, models, isCodeOpen, onCloseCode }: CompareTextsProps) {
  const [query, changeQuery] = useQueryState();
  const [initial] = useState(() => initialModel(models));
  const [texts, setTexts] = useState<readonly string[]>(['', '']);
  const running = useRef<AbortController>(null);
  useEffect(() => () => running.current?.abort(), []);
  const [chosen = models[0]] = [query.get('model'), initial].flatMap(
    (id) => models.find((model) => model.id === id) ?? [],
  );
  const compare = useMutation({
    // An offline browser may reach a service on the same machine.
    networkMode: 'always',
    mutationFn: async (model: string) => {
      const { signal } = (running.current = new AbortController());
      const embeddings = await embedFor(accountId, { body: { model, input: texts }, signal }).catch(
        (error: unknown) => {
          throw signal.aborted ? error : asApiError(error);
        },
      );
      const { vectors, promptTokens, requestId } = embeddings;
      const [one = [], other = []] = vectors;
      const similarity = fixed(Number(cosine(one, other).toFixed(3)) || 0, 3);
      const size = `${whole(one.length)} dimensions, ${counted(promptTokens, 'token')}`;
      return { text: `Cosine ${similarity} (${size})`, requestId };
    },
  });
  const { data: result, isPending: isRunning, reset } = compare;
  // A comparison that was stopped has no error to show.
  const error = compare.error instanceof ApiError ? compare.error : null;
  if (chosen === undefined) return <NoModels />;
  return (
    <div className="h-full overflow-y-auto">
      <Form
        error={error}
        onSubmit={() => {
          if (!isRunning) compare.mutate(chosen.id);
        }}
        className="mx-auto max-w-3xl space-y-4 px-4 py-5 sm:px-6"
      >
        <Select
          label="Model"
          className="w-full sm:max-w-md"
          value={chosen.id}
          disabled={isRunning}
          choices={models.map((one) => ({ value: one.id, label: one.id, hint: summaryOf(one) }))}
          onChange={(model) => {
            reset();
            changeQuery({ model }, { replace: true });
          }}
        />
        <h2 className="text-sm font-semibold">Compare texts</h2>
        <p className="text-sm text-ink-3">
          The higher the cosine of their embeddings, the more similar the meanings of two texts. The scale
          depends on the model. See <TextLink to="/docs/guide/embeddings">Embeddings</TextLink>.
        </p>
        <NotReady model={chosen} models={models} />
        {texts.map((text, index) => (
          <TextArea
            // There are always two.
            key={`${index}`}
            name={`input[${index}]`}
            label={`Text ${index + 1}`}
            required
            value={text}
            rows={2}
            onChange={({ target }) => {
              if (!isRunning) reset();
              setTexts(texts.with(index, target.value));
            }}
          />
        ))}
        <FormError error={error} />
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
          {/* With keys, a click on Stop does not reach the button that takes its place. */}
          {isRunning ? (
            <Button key="stop" onClick={() => running.current?.abort()}>
              Stop
            </Button>
          ) : (
            <Button key="compare" kind="primary" type="submit">
              Compare
            </Button>
          )}
          <p role="status" className="text-sm font-medium tabular-nums">
            {isRunning ? 'Comparing the texts' : result?.text}
          </p>
          {result?.requestId && <TextLink to={`/requests/${result.requestId}`}>Receipt</TextLink>}
        </div>
      </Form>
      {isCodeOpen && <Code model={chosen.id} texts={texts} onClose={onCloseCode} />}
    </div>
  );
}

function NoModels() {
  const { user } = useSession();
  return (
    <EmptyState
      icon={Waypoints}
      title="No embedding models"
      action={user.operator && <ButtonLink to="/models?add=1">Add model</ButtonLink>}
    >
      An embedding model turns texts into vectors, to search and compare them by meaning.{' '}
      {!user.operator && 'An operator of this service can add one. '}
      See <TextLink to="/docs/guide/embeddings">Embeddings</TextLink>.
    </EmptyState>
  );
}

/** Code samples of the current request, or of an example if a text is empty. */
function Code({ model, texts, onClose }: { model: string; texts: readonly string[]; onClose: () => void }) {
  const { public_url: baseUrl } = useSession();
  const example = ['The river rises in spring.', 'My printer is out of ink.'];
  const request = { model, input: texts.includes('') ? example : texts };
  return (
    <CodeWindow onClose={onClose}>
      <CodeTabs label="Current request" samples={samplesOf({ baseUrl, key: KEY_VARIABLE, request })} />
    </CodeWindow>
  );
}
