import type { ReactNode } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { CopyButton } from '../../components/copy.tsx';
import { DetailList } from '../../components/detail-list.tsx';
import { Meter } from '../../components/meter.tsx';
import { limitAmount, limitLabel } from '../../format/limits.ts';
import { exactMoneyColumn } from '../../format/money.ts';
import { whole } from '../../format/number.ts';
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
  return (
    <ReceiptSection title="IDs">
      <dl className="divide-y divide-line text-sm">
        <Id label="Request ID" what="request ID" id={request.id} />
        {request.client_request_id !== null && (
          <Id label="Client request ID" what="client request ID" id={request.client_request_id} />
        )}
      </dl>
    </ReceiptSection>
  );
}

function Id({ label, what, id }: { label: string; what: string; id: string }) {
  return (
    <div className="flex items-center justify-between gap-4 py-1">
      <dt className="shrink-0 text-ink-3">{label}</dt>
      <dd className="flex min-w-0 items-center gap-1">
        <code className="min-w-0 font-mono text-xs break-all">{id}</code>
        <CopyButton text={id} what={what} />
      </dd>
    </div>
  );
}
