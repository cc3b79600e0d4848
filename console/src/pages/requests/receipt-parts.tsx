import type { ReactNode } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { COLORS } from '../../charts/colors.ts';
import { CopiedId, DetailList } from '../../components/detail-list.tsx';
import { Meter } from '../../components/meter.tsx';
import { limitAmount, limitLabel } from '../../format/limits.ts';
import { exactMoneyColumn } from '../../format/money.ts';
import { oneDecimal, whole } from '../../format/number.ts';
import { between, duration, wait } from '../../format/time.ts';
import { hasNoCompletion, type Request } from '../../requests/outcome.tsx';

type Receipt = ResponseOf<'getReceipt'>;

/** A section of a receipt. */
export function ReceiptSection({
  title,
  aside,
  children,
}: {
  title: string;
  aside?: ReactNode;
  children: ReactNode;
}) {
  return (
    <section>
      <div className="mb-2 flex items-baseline justify-between gap-3">
        <h3 className="text-sm font-semibold">{title}</h3>
        {aside !== undefined && <span className="text-xs text-ink-3">{aside}</span>}
      </div>
      {children}
    </section>
  );
}

const WHAT = {
  prompt: 'Prompt',
  input_cache_read: 'Prompt (cached)',
  completion: 'Completion',
  waived: 'Waived due to error',
} as const;

/** The cost breakdown, as computed by the service. */
export function CostLines({ request, cost: lines }: { request: Request; cost: Receipt['cost'] }) {
  const cost = lines.filter(({ what }) => what !== 'completion' || !hasNoCompletion(request));
  if (cost.length === 0) {
    return (
      <ReceiptSection title="Cost">
        <p className="text-sm text-ink-3">Available when the request has finished</p>
      </ReceiptSection>
    );
  }
  const isCacheSeparate = cost.some(({ what }) => what === 'input_cache_read');
  const amount = exactMoneyColumn([...cost.map(({ usd }) => usd), request.cost_usd]);
  const price = exactMoneyColumn(cost.map(({ usd_per_million }) => usd_per_million));
  const cell = 'py-2 pl-3 text-right tabular-nums first:pl-0 first:text-left';
  return (
    <ReceiptSection title="Cost">
      <table className="w-full text-sm">
        <caption className="sr-only">Cost breakdown</caption>
        <thead>
          <tr className="border-b border-line text-xs text-ink-3">
            {['Item', 'Tokens', 'USD per million', 'USD'].map((heading) => (
              <th key={heading} scope="col" className={`${cell} font-medium`}>
                {heading}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {cost.map((line) => (
            <tr key={line.what} className="border-b border-line">
              <th scope="row" className={`${cell} font-normal`}>
                {isCacheSeparate && line.what === 'prompt' ? 'Prompt (uncached)' : WHAT[line.what]}
              </th>
              <td className={cell}>{whole(line.tokens)}</td>
              <td className={cell}>{line.what === 'waived' ? '' : price(line.usd_per_million)}</td>
              <td className={cell}>{amount(line.usd)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr className="font-medium">
            <th scope="row" colSpan={3} className={`${cell} font-medium`}>
              Total
            </th>
            <td className={cell}>{amount(request.cost_usd)}</td>
          </tr>
        </tfoot>
      </table>
    </ReceiptSection>
  );
}

/** Formats an image, such as `png 640 × 480`. */
function imageText(image: NonNullable<Receipt['model_input']>['images'][number]): string {
  return image === null ? 'URL' : `${image.format} ${image.width} × ${image.height}`;
}

/** What the model was given, without its text, and what of the request had no effect. */
export function ModelInput({ input }: { input: NonNullable<Receipt['model_input']> }) {
  const { sampling, recommended_sampling: recommended, notes, more_notes: more } = input;
  const parameters = { ...sampling, seed: sampling.seed ?? 'random' };
  // The parameters of text have no effect on an embedding.
  const generatesText = input.max_tokens !== 0;
  return (
    <ReceiptSection title="What the model was given">
      <DetailList
        details={[
          { label: 'Messages', value: input.messages && named(input.messages) },
          { label: generatesText ? 'Prompts' : 'Inputs', value: input.prompts },
          { label: 'Dimensions', value: input.dimensions },
          { label: 'Images', value: input.images.map(imageText).join(', ') },
          {
            label: 'Tools',
            value: input.tools === 0 ? null : `${input.tools}, choice: ${input.tool_choice}`,
          },
          { label: 'Format of calls', value: input.tools === 0 ? null : (input.tool_format ?? 'unknown') },
          { label: 'Chat template', value: input.template },
          { label: 'Template variables', value: named(input.template_variables, 'not shown') },
          { label: 'Reasoning effort', value: input.reasoning_effort },
          ...(generatesText
            ? [
                { label: 'Response format', value: input.response_format },
                {
                  label: 'Maximum tokens',
                  value: input.max_tokens === null ? 'Limit of the model' : whole(input.max_tokens),
                },
                { label: 'Stop sequences', value: input.stop_sequences === 0 ? null : input.stop_sequences },
                { label: 'Choices', value: input.choices === 1 ? null : input.choices },
                { label: 'Sampling', value: named(parameters, 'default') },
                { label: 'Recommended sampling', value: named(recommended) },
              ]
            : []),
        ].filter(({ value }) => value !== null && value !== '')}
      />
      {notes.length > 0 && (
        <>
          <h4 className="mt-4 mb-1 text-sm font-medium">Notes</h4>
          <p className="mb-2 text-xs text-ink-3">Parts of the request that had no effect, or were changed</p>
          <ul className="space-y-1 text-sm">
            {notes.map(({ path, what }, index) => (
              // Two notes can be the same.
              // oxlint-disable-next-line react/no-array-index-key
              <li key={index} className="break-words">
                <code className="font-mono text-xs">{path}</code> {what}
              </li>
            ))}
            {more > 0 && <li className="text-ink-3">And {whole(more)} more</li>}
          </ul>
        </>
      )}
    </ReceiptSection>
  );
}

/** Lists values with their names; empty if there are none. */
function named(
  values: Readonly<Record<string, string | number | boolean | null | undefined>>,
  unset = '',
): string {
  return Object.entries(values)
    .map(([name, value]) => `${name.replaceAll('_', ' ')} ${value ?? unset}`)
    .join(', ');
}

/** The limits that applied to a request, and how much of each remained. */
export function AppliedLimits({ plan, limits }: { plan: string; limits: Receipt['limits'] }) {
  return (
    <ReceiptSection title="Limits applied" aside={`Plan: ${plan}`}>
      {limits.length === 0 ? (
        <p className="text-sm text-ink-3">None. The plan has no limits.</p>
      ) : (
        <ul className="space-y-3">
          {limits.map(({ scope, model, limit, bound, left }) => (
            <li key={`${scope} ${model ?? ''} ${limit}`}>
              <Meter
                label={[limitLabel(limit), scope === 'key' && 'key limit', model && `for ${model}`]
                  .filter(Boolean)
                  .join(', ')}
                used={Number(bound) - Number(left)}
                bound={Number(bound)}
                text={`${limitAmount(limit, left)} of ${limitAmount(limit, bound)} left`}
              />
            </li>
          ))}
        </ul>
      )}
    </ReceiptSection>
  );
}

/** The ids of a request. */
export function Ids({ request }: { request: Request }) {
  const own = request.client_request_id;
  return (
    <ReceiptSection title="IDs">
      <DetailList
        details={[
          { label: 'Request ID', value: <CopiedId id={request.id} what="request ID" /> },
          own !== null && {
            label: 'Client request ID',
            value: <CopiedId id={own} what="client request ID" />,
          },
        ]}
      />
    </ReceiptSection>
  );
}

interface Stage {
  name: string;
  /** Description for tooltips. */
  meaning: string;
  /** Milliseconds; null: not started, or unknown. */
  ms: number | null;
  /** Duration, or why it is unknown. */
  text: string;
  /** Series color of the bar. */
  color: number;
}

/** A timeline of the stages of a request. */
export function Waterfall({ receipt }: { receipt: Receipt }) {
  const { request } = receipt;
  const stages = stagesOf(receipt);
  const total = between(request.started_at, request.ended_at);
  const known = stages.reduce((sum, { ms }) => sum + (ms ?? 0), 0);
  const scale = Math.max(1, total ?? known);
  return (
    <ReceiptSection title="Timing" aside={total === null ? 'Running' : `${duration(total)} total`}>
      <ul className="space-y-2.5">
        {stages.map((stage, index) => (
          <Bar
            key={stage.name}
            stage={stage}
            before={stages.slice(0, index).reduce((sum, { ms }) => sum + (ms ?? 0), 0) / scale}
            share={(stage.ms ?? 0) / scale}
          />
        ))}
      </ul>
      {!hasNoCompletion(request) && (
        <p className="mt-3 text-xs text-ink-3 tabular-nums">{summary(receipt)}</p>
      )}
    </ReceiptSection>
  );
}

const QUEUE = { name: 'Queue', meaning: 'waiting for a slot', color: COLORS.queue };
const STAGES = [
  QUEUE,
  { name: 'Prefill', meaning: 'processing the prompt until the first token', color: COLORS.prefill },
  { name: 'Decode', meaning: 'generating the completion', color: COLORS.decode },
] as const;

const COMPUTE_STAGES = [QUEUE, { name: 'Compute', meaning: 'computing the result', color: COLORS.prefill }];

/** Returns the stages. The time after the last finished stage belongs to the stage that did not finish. */
function stagesOf({ request, stages }: Receipt): Stage[] {
  const total = between(request.started_at, request.ended_at);
  const computes = hasNoCompletion(request);
  const took = computes
    ? [stages.queue_ms, computeMs(request, stages.queue_ms, total)]
    : [stages.queue_ms, stages.prefill_ms, stages.decode_ms];
  const known = took.reduce<number>((sum, ms) => sum + (ms ?? 0), 0);
  const last = took.indexOf(null);
  return (computes ? COMPUTE_STAGES : STAGES).map((stage, index) => {
    const ms = took[index] ?? null;
    if (ms !== null) return { ...stage, ms, text: duration(ms) };
    if (index > last)
      return { ...stage, ms: null, text: request.state === 'open' ? 'Pending' : 'Not reached' };
    if (request.state === 'open') return { ...stage, ms: null, text: 'In progress' };
    if (total === null) return { ...stage, ms: null, text: 'Unknown' };
    const rest = Math.max(0, total - known);
    return { ...stage, ms: rest, text: `Aborted, ${duration(rest)}` };
  });
}

/** Returns the time for embeddings or scores, which have no tokens to measure; null: not complete. */
function computeMs(request: Request, queueMs: number | null, totalMs: number | null): number | null {
  const isComplete = request.state === 'settled' && request.error_code === null;
  return isComplete && totalMs !== null ? Math.max(0, totalMs - (queueMs ?? 0)) : null;
}

interface BarProps {
  stage: Stage;
  /** Shares of the total time: of the stages before, and of this stage. */
  before: number;
  share: number;
}

function Bar({ stage: { name, meaning, ms, text, color }, before, share }: BarProps) {
  return (
    <li className="grid grid-cols-[4rem_minmax(0,1fr)_6.5rem] items-center gap-3 text-sm">
      <span title={meaning}>
        {name}
        <span className="sr-only">, {meaning}</span>
      </span>
      <span className="block h-3 overflow-hidden rounded bg-sunken" aria-hidden="true">
        {ms !== null && (
          <span
            className="block h-full min-w-0.5 rounded-[3px]"
            style={{
              background: `var(--series-${color})`,
              width: `${share * 100}%`,
              marginLeft: `min(${before * 100}%, calc(100% - 2px))`,
            }}
          />
        )}
      </span>
      <span className="text-right text-ink-2 tabular-nums">{text}</span>
    </li>
  );
}

/** Returns time to first token and throughput. */
function summary({ request, stages, prefill }: Receipt): string {
  const ttft = between(request.started_at, request.first_token_at);
  if (ttft === null) {
    if (request.state !== 'open') return 'No tokens were generated';
    return prefill === null ? 'No tokens yet' : `No tokens yet: ${progressOf(prefill)}`;
  }
  const { decode_ms } = stages;
  const further = request.completion_tokens - 1;
  const speed = decode_ms !== null && decode_ms > 0 && further > 0 ? (further / decode_ms) * 1000 : null;
  const first = `First token after ${duration(ttft)}`;
  return speed === null ? first : `${first}, then ${oneDecimal(speed)} tokens/s`;
}

function progressOf(prefill: NonNullable<Receipt['prefill']>): string {
  const { prompt_tokens: all, done_tokens: done, left_ms: leftMs } = prefill;
  const left = leftMs === null ? '' : `, ${wait(leftMs)} left`;
  return `${whole(done)} of ${whole(all)} prompt tokens processed${left}`;
}
