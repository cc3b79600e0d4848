import { Wrench } from 'lucide-react';
import type { ReactNode } from 'react';
import type { TokenLogprob } from '../../api/generate.ts';
import { Button } from '../../components/button.tsx';
import { Segmented } from '../../components/choices.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { Disclosure } from '../../components/disclosure.tsx';
import { TextLink } from '../../components/link.tsx';
import { useNow } from '../../components/now.ts';
import { Spinner } from '../../components/spinner.tsx';
import { Notice } from '../../components/states.tsx';
import { money } from '../../format/money.ts';
import { counted, oneDecimal, percent } from '../../format/number.ts';
import { duration, wait } from '../../format/time.ts';
import {
  emptyText,
  formatArguments,
  isCompleteCall,
  isInProgress,
  speedOf,
  type Answer,
  type Fault as FaultData,
  type ToolCall as ToolCallData,
} from './answer.ts';
import type { Turn } from './draft.ts';
import { Markdown } from './markdown-view.tsx';
import { NUMBERS } from './settings.ts';
import { useIsRunning, usePlayground } from './state.tsx';

interface AnswerViewProps {
  turn: Turn;
  answer: Answer;
  /** Whether the text is shown as it was received, instead of as Markdown. */
  showsSource: boolean;
  calls: ReactNode;
}

export function AnswerView({ turn, answer, showsSource, calls }: AnswerViewProps) {
  const playground = usePlayground();
  const { text } = turn;
  const { choices, chosen, fault, usage, requestId } = answer;
  const isLive = isInProgress(answer);
  const choice = choices[chosen];
  const { logprobs = [], reasoning = '' } = choice ?? {};
  const isEmpty = text === '' && turn.calls.length === 0;
  if (isLive && choices.length === 0) {
    return (
      <p className="flex items-center gap-2 text-ink-3">
        <Spinner />
        {requestId === null ? 'Waiting for the service' : 'Waiting for the first token'}
      </p>
    );
  }
  return (
    <div aria-busy={isLive}>
      {choices.length > 1 && (
        <div className="mb-2 overflow-x-auto">
          <Segmented
            label="Choice"
            value={`${chosen}`}
            choices={choices.map((_, index) => ({ value: `${index}`, label: `Choice ${index + 1}` }))}
            onChange={(value) => playground.choose(turn.id, Number(value))}
          />
        </div>
      )}
      {reasoning !== '' && (
        <Disclosure
          className="mb-2"
          label={
            <span>
              Reasoning
              {/* The tokens of several choices are counted together. */}
              {choices.length === 1 && usage !== null && (
                <span className="font-normal text-ink-3 tabular-nums">
                  {' '}
                  · {counted(usage.reasoningTokens, 'token')}
                </span>
              )}
            </span>
          }
        >
          <p className="mt-1.5 border-l-2 border-line pl-3 text-sm break-words whitespace-pre-wrap text-ink-2">
            {reasoning}
          </p>
        </Disclosure>
      )}
      {text !== '' && (showsSource ? <Source text={text} /> : <Markdown text={text} />)}
      {calls}
      {isLive && (
        <p className="mt-3 flex items-center gap-2 text-xs text-ink-3 tabular-nums">
          <Spinner />
          Generating{answer.ttftMs !== null && `, first token after ${duration(answer.ttftMs)}`}
        </p>
      )}
      {!isLive && isEmpty && fault === null && <p className="text-ink-3">{emptyText(answer)}</p>}
      {fault !== null && (
        <div className={text === '' ? '' : 'mt-3'}>
          <Fault fault={fault} onRetry={() => playground.runFrom(turn.id)} />
        </div>
      )}
      {!isLive && (requestId !== null || answer.totalMs !== null) && <Numbers answer={answer} />}
      {!isLive && logprobs.length > 0 && <Logprobs tokens={logprobs} />}
    </div>
  );
}

export function Source({ text }: { text: string }) {
  return <div className="break-words whitespace-pre-wrap">{text}</div>;
}

interface ToolCallProps {
  call: ToolCallData;
  /** The arguments are still arriving. */
  isLive?: boolean;
  children?: ReactNode;
}

/** A call: the name of the function and its arguments, which are indented unless the response ended within them. */
export function ToolCall({ call, isLive = false, children }: ToolCallProps) {
  const { name, arguments: json } = call;
  const shown = json === '' && !isLive ? '{}' : json;
  return (
    <div
      role="group"
      aria-label={`Call of ${name}`}
      className="overflow-hidden rounded-lg border border-line"
    >
      <div className="flex h-9 items-center gap-2 border-b border-line bg-sunken pr-1 pl-3">
        <Wrench className="size-3.5 shrink-0 text-ink-3" />
        <span className="mr-auto truncate font-mono text-xs font-medium">{name}</span>
        <CopyButton text={json} what="arguments" />
      </div>
      <pre
        tabIndex={0}
        className="max-h-96 overflow-auto p-3 font-mono text-xs leading-5 wrap-anywhere whitespace-pre-wrap focus-visible:-outline-offset-2"
      >
        {isLive || isCompleteCall(call) ? formatArguments(shown) : json}
      </pre>
      {children}
    </div>
  );
}

function Fault({ fault, onRetry }: { fault: FaultData; onRetry: () => void }) {
  const playground = usePlayground();
  const isRunning = useIsRunning();
  const waitMs = useWait(fault.retryAtMs);
  const parameter = NUMBERS.find(({ name }) => name === fault.param);
  return (
    <Notice tone="bad">
      <p className="break-words text-ink">
        <CodeText text={fault.message} />
      </p>
      <div className="mt-2 flex flex-wrap items-center gap-x-3 gap-y-2">
        <Button size="small" disabled={isRunning || waitMs > 0} onClick={onRetry}>
          {waitMs > 0 ? `Try again in ${wait(waitMs)}` : 'Try again'}
        </Button>
        {parameter && (
          <Button size="small" kind="quiet" onClick={() => playground.setNumber(parameter.name, '')}>
            Reset {parameter.label.toLowerCase()}
          </Button>
        )}
        <span className="font-mono text-2xs break-all">
          {fault.code}
          {fault.requestId !== null && ` · ${fault.requestId}`}
        </span>
      </div>
    </Notice>
  );
}

/** Longer waits show no countdown and leave the retry button enabled. */
const LONGEST_COUNTDOWN_MS = 10 * 60_000;

/** Returns the remaining milliseconds; 0: past, or too far away for a countdown. */
function useWait(untilMs: number | null): number {
  const leftMs = (untilMs ?? 0) - useNow(1000);
  return leftMs > 0 && leftMs <= LONGEST_COUNTDOWN_MS ? leftMs : 0;
}

function Numbers({ answer }: { answer: Answer }) {
  const { choices, usage, ttftMs, totalMs, cost, requestId } = answer;
  const speed = speedOf(answer);
  // With a single choice, the label of its reasoning has the count.
  const reasoning = choices.length === 1 ? 0 : (usage?.reasoningTokens ?? 0);
  const tokens = (count: number | undefined) => count !== undefined && counted(count, 'token');
  const metrics: [name: string, text: string | false, title?: string][] = [
    ['Prompt', tokens(usage?.promptTokens)],
    ['Cached', tokens(usage?.cachedTokens || undefined)],
    ['Completion', tokens(usage?.completionTokens)],
    ['Reasoning', tokens(reasoning || undefined)],
    ['TTFT', ttftMs !== null && duration(ttftMs), 'Time to first token'],
    [
      'Throughput',
      speed !== null && `${oneDecimal(speed)} tokens/s`,
      'Tokens per second after the first token',
    ],
    ['Total', totalMs !== null && duration(totalMs)],
    ['Cost', cost !== null && money(cost), `$${cost}`],
    ['Finish reason', endOf(answer)],
  ];
  return (
    <div className="mt-2.5 flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-ink-3">
      <dl className="contents">
        {metrics.map(
          ([name, text, title]) =>
            text !== false && (
              <div key={name} className="flex gap-1 whitespace-nowrap" title={title}>
                <dt>{name}</dt>
                <dd className="text-ink-2 tabular-nums">{text}</dd>
              </div>
            ),
        )}
      </dl>
      {requestId !== null && (
        <TextLink to={`/requests/${requestId}`} className="text-xs">
          Receipt
        </TextLink>
      )}
    </div>
  );
}

function endOf({ choices, chosen, stopped, fault }: Answer): string {
  if (stopped) return 'stopped by you';
  if (fault !== null) return fault.code;
  return choices[chosen]?.finish ?? '—';
}

/** Maximum number of tokens shown, to keep the page fast. */
const MAX_SHOWN = 500;

/** The probability of each token, and its most likely alternatives. */
function Logprobs({ tokens }: { tokens: readonly TokenLogprob[] }) {
  const alternatives = tokens.some(({ top }) => top.length > 0);
  return (
    <Disclosure className="mt-2.5" label="Log probabilities">
      <div tabIndex={0} className="mt-2 max-h-72 overflow-auto rounded-lg border border-line">
        <table className="w-full text-xs" aria-label="Log probabilities of the tokens">
          <thead className="sticky top-0 bg-sunken text-left text-ink-3">
            <tr>
              <th className="px-3 py-1.5 font-medium">Token</th>
              <th className="px-3 py-1.5 text-right font-medium">Probability</th>
              <th className="px-3 py-1.5 text-right font-medium">Logprob</th>
              {alternatives && <th className="w-full px-3 py-1.5 font-medium">Top tokens</th>}
            </tr>
          </thead>
          <tbody className="divide-y divide-line">
            {tokens.slice(0, MAX_SHOWN).map(({ token, logprob, top }, index) => (
              // Tokens repeat, so only their index is unique.
              <tr key={`${index}`}>
                <td className="px-3 py-1 font-mono whitespace-pre">{shown(token)}</td>
                <td className="px-3 py-1 text-right">{percent(Math.exp(logprob))}</td>
                <td className="px-3 py-1 text-right text-ink-3">{logprob.toFixed(4)}</td>
                {alternatives && (
                  <td className="px-3 py-1 text-ink-3">
                    {top.map((other) => (
                      <span key={other.token} className="mr-3 inline-block whitespace-pre">
                        <span className="font-mono text-ink-2">{shown(other.token)}</span>{' '}
                        {percent(Math.exp(other.logprob))}
                      </span>
                    ))}
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {tokens.length > MAX_SHOWN && (
        <p className="mt-1 text-xs text-ink-3">
          Showing the first {MAX_SHOWN} of {tokens.length} tokens
        </p>
      )}
    </Disclosure>
  );
}

function shown(token: string): string {
  return token.replaceAll('\n', '↵').replaceAll('\t', '⇥').replaceAll(' ', '·');
}
