import { ArrowUp, Plus, Square, Waypoints } from 'lucide-react';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { flushSync } from 'react-dom';
import { ApiError } from '../../api/client.ts';
import { embedFor } from '../../api/playground-key.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { CodeTabs } from '../../components/code.tsx';
import { TextArea } from '../../components/field.tsx';
import { isAbout, type FieldErrors } from '../../components/field-errors.ts';
import { Form } from '../../components/form.tsx';
import { TextLink } from '../../components/link.tsx';
import { Select } from '../../components/select.tsx';
import { EmptyState } from '../../components/states.tsx';
import { money } from '../../format/money.ts';
import { counted, fixed, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { KEY_VARIABLE, samplesOf } from '../../snippets/samples.ts';
import { useSession } from '../../state/session.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { costOf, faultOf } from './answer.ts';
import { Fault, Metric } from './answer-view.tsx';
import { CodeWindow } from './code-window.tsx';
import { NotReady } from './columns.tsx';
import { Keys, SEND_KEYS, StorageNotice } from './composer.tsx';
import { cosineOf, fieldOf, MAX_TEXTS, MIN_TEXTS, textErrors, type Comparison } from './compare.ts';
import { initialModel, summaryOf, type Model } from './model-text.ts';
import { useActions, usePlayground } from './state.tsx';

/** Texts with the same meaning in two languages, and another one. */
const EXAMPLE = ['The river rises in spring.', 'Der Fluss steigt im Frühling.', 'My printer is out of ink.'];

interface CompareTextsProps {
  /** The account that is charged. */
  accountId: string;
  /** The embedding models. */
  models: readonly Model[];
  /** The code dialog is open. */
  isCodeOpen: boolean;
  onCloseCode: () => void;
}

/** Compares the embeddings of texts. */
export function CompareTexts({ accountId, models, isCodeOpen, onCloseCode }: CompareTextsProps) {
  const { texts } = usePlayground().draft;
  const [query, changeQuery] = useQueryState();
  const [initial] = useState(() => initialModel(models));
  const { comparison, failed, isRunning, compare, stop } = useComparison(accountId);
  const [errors, setErrors] = useState<FieldErrors>({});
  const [chosen = models[0]] = [query.get('model'), initial].flatMap(
    (id) => models.find((model) => model.id === id) ?? [],
  );
  const error = failed?.model === chosen?.id ? (failed?.error ?? null) : null;
  if (chosen === undefined) return <NoModels />;
  const submit = () => {
    if (isRunning) return;
    const empty = textErrors(texts);
    setErrors(empty);
    if (Object.keys(empty).length === 0) void compare(chosen, texts);
  };
  const [first = ''] = texts;
  const cosines = texts.map((text) => comparison && cosineOf(comparison, chosen.id, first, text));
  const isAboutText = texts.some((_, index) => isAbout(error, fieldOf(index)));
  return (
    <div className="flex h-full flex-col">
      <div className="border-b border-line px-4 py-2 sm:px-6 lg:px-8">
        <Select
          label="Model"
          className="w-full sm:max-w-md"
          value={chosen.id}
          disabled={isRunning}
          choices={models.map((one) => ({ value: one.id, label: one.id, hint: summaryOf(one) }))}
          onChange={(model) => changeQuery({ model }, { replace: true })}
        />
      </div>
      <div className="min-h-0 flex-1 overflow-y-auto">
        <div className="mx-auto max-w-3xl space-y-4 px-4 py-5 sm:px-6">
          <header>
            <h2 className="text-sm font-semibold">Compare texts</h2>
            <p className="mt-0.5 text-sm text-ink-3">
              Compares each text with text 1. The higher the cosine of their embeddings, the more similar
              their meanings. The scale depends on the model. See{' '}
              <TextLink to="/docs/guide/embeddings">Embeddings</TextLink>.
            </p>
          </header>
          <NotReady model={chosen} models={models} />
          <Form error={error} errors={errors} onSubmit={submit}>
            <Texts cosines={cosines}>
              <CompareOrStop isRunning={isRunning} onStop={stop} />
            </Texts>
          </Form>
          {error !== null && !isAboutText && (
            <Fault fault={faultOf(error)} onRetry={() => void compare(chosen, texts)} />
          )}
          <p role="status" className="sr-only">
            {isRunning ? 'Comparing the texts.' : comparison !== null ? 'The texts are compared.' : ''}
          </p>
          {comparison !== null && cosines[0] !== null && <Figures comparison={comparison} />}
          <StorageNotice hasTexts={texts.some((text) => text !== '')} />
        </div>
      </div>
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

interface TextsProps {
  /** The cosine of each text with the first; null: not compared. */
  cosines: readonly (number | null)[];
  /** More buttons. */
  children: ReactNode;
}

/** The inputs for the texts, with the result below each. */
function Texts({ cosines, children }: TextsProps) {
  const { texts } = usePlayground().draft;
  const { change } = useActions();
  const list = useRef<HTMLOListElement>(null);
  const set = (changed: readonly string[]) => change({ type: 'set', values: { texts: changed } });
  /** Moves the focus to a text after the list has changed. */
  const setAndFocus = (changed: readonly string[], index: number) => {
    flushSync(() => set(changed));
    list.current?.querySelectorAll('textarea')[index]?.focus();
  };
  return (
    <>
      <ol ref={list} className="space-y-4">
        {texts.map((text, index) => (
          // Texts have no id.
          <li key={`${index}`}>
            <TextArea
              name={fieldOf(index)}
              label={`Text ${index + 1}`}
              aside={
                texts.length > MIN_TEXTS && (
                  <button
                    type="button"
                    onClick={() => setAndFocus(texts.toSpliced(index, 1), Math.max(0, index - 1))}
                    className="rounded font-medium text-ink-2 underline-offset-2 hover:underline"
                  >
                    Remove<span className="sr-only"> text {index + 1}</span>
                  </button>
                )
              }
              value={text}
              rows={2}
              onChange={({ target }) => set(texts.with(index, target.value))}
              onKeyDown={(event) => {
                if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
                event.preventDefault();
                event.currentTarget.form?.requestSubmit();
              }}
            />
            {index > 0 && <Cosine value={cosines[index] ?? null} />}
          </li>
        ))}
      </ol>
      <div className="flex flex-wrap items-center gap-2">
        <Button
          size="small"
          disabled={texts.length >= MAX_TEXTS}
          icon={<Plus className="size-3.5" aria-hidden="true" />}
          onClick={() => setAndFocus([...texts, ''], texts.length)}
        >
          Add text
        </Button>
        {texts.every((text) => text === '') && (
          <Button size="small" kind="quiet" onClick={() => setAndFocus(EXAMPLE, 0)}>
            Use example texts
          </Button>
        )}
        <span className="ml-auto">{children}</span>
      </div>
    </>
  );
}

/** The cosine of a text with the first one, as a number and a bar. Negative ones have an empty bar. */
function Cosine({ value }: { value: number | null }) {
  return (
    <p className="mt-2 grid grid-cols-[auto_minmax(0,1fr)_3.5rem] items-center gap-3 text-xs text-ink-3">
      Cosine with text 1
      <span className="block h-2 overflow-hidden rounded-full bg-sunken" aria-hidden="true">
        <span
          className="block h-full rounded-full bg-accent transition-[width]"
          style={{ width: `${Math.max(0, value ?? 0) * 100}%` }}
        />
      </span>
      <span className="text-right text-sm font-medium text-ink tabular-nums">
        {value === null ? '—' : cosineText(value)}
      </span>
    </p>
  );
}

const COSINE_DECIMALS = 3;

/** Formats a cosine, without the sign of a negative one that rounds to 0. */
function cosineText(value: number): string {
  return fixed(Number(value.toFixed(COSINE_DECIMALS)) || 0, COSINE_DECIMALS);
}

interface CompareOrStopProps {
  isRunning: boolean;
  onStop: () => void;
}

/** The button that compares; a stop button while a request is in progress. */
function CompareOrStop({ isRunning, onStop }: CompareOrStopProps) {
  // With keys, a click on Stop does not reach the submit button that takes its place.
  return isRunning ? (
    <Button
      key="stop"
      icon={<Square className="size-3.5 fill-current" aria-hidden="true" />}
      onClick={(event) => {
        // The second click of a double click on Compare, which was in the same place.
        if (event.detail !== 2) onStop();
      }}
    >
      Stop
    </Button>
  ) : (
    <Button
      key="compare"
      kind="primary"
      type="submit"
      icon={<ArrowUp className="size-4" aria-hidden="true" />}
    >
      Compare
      <Keys>{SEND_KEYS}</Keys>
    </Button>
  );
}

/** Length of the vectors, usage, timing and cost of a comparison. */
function Figures({ comparison }: { comparison: Comparison }) {
  const { vectors, promptTokens, totalMs, cost, requestId } = comparison;
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-ink-3">
      <dl className="contents">
        <Metric name="Dimensions">{whole(vectors[0]?.length ?? 0)}</Metric>
        <Metric name="Prompt">{counted(promptTokens, 'token')}</Metric>
        <Metric name="Total">{duration(totalMs)}</Metric>
        <Metric name="Cost" title={`$${cost}`}>
          {money(cost)}
        </Metric>
      </dl>
      {requestId !== null && (
        <TextLink to={`/requests/${requestId}`} className="text-xs">
          Receipt
        </TextLink>
      )}
    </div>
  );
}

/** Code samples of the current request, or of an example if there are no texts. */
function Code({ model, texts, onClose }: { model: string; texts: readonly string[]; onClose: () => void }) {
  const { public_url: baseUrl } = useSession();
  const given = texts.filter((text) => text.trim() !== '');
  const request = { model, input: given.length === 0 ? EXAMPLE : given };
  return (
    <CodeWindow onClose={onClose}>
      <CodeTabs label="Current request" samples={samplesOf({ baseUrl, key: KEY_VARIABLE, request })} />
    </CodeWindow>
  );
}

interface ComparisonState {
  /** The last successful one. */
  comparison: Comparison | null;
  /** The error of the last request; null: it succeeded, or was stopped. */
  failed: { model: string; error: ApiError } | null;
  isRunning: boolean;
  /** Never rejects. */
  compare: (model: Model, texts: readonly string[]) => Promise<void>;
  stop: () => void;
}

/** Requests embeddings, one request at a time. Unmounting stops it. */
function useComparison(accountId: string): ComparisonState {
  const [comparison, setComparison] = useState<Comparison | null>(null);
  const [failed, setFailed] = useState<ComparisonState['failed']>(null);
  const [isRunning, setRunning] = useState(false);
  const running = useRef<AbortController>(null);
  useEffect(() => () => running.current?.abort(), []);
  const compare = async (model: Model, texts: readonly string[]) => {
    const { signal } = (running.current = new AbortController());
    setRunning(true);
    setFailed(null);
    try {
      const embeddings = await embedFor(accountId, { body: { model: model.id, input: texts }, signal });
      const usage = {
        promptTokens: embeddings.promptTokens,
        completionTokens: 0,
        reasoningTokens: 0,
        cachedTokens: 0,
      };
      setComparison({ ...embeddings, model: model.id, texts, cost: costOf(usage, model.pricing) });
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      setFailed({ model: model.id, error });
    } finally {
      setRunning(false);
    }
  };
  return { comparison, failed, isRunning, compare, stop: () => running.current?.abort() };
}
