import type { ItemOf } from '../../api/client.ts';
import { Badge } from '../../components/badge.tsx';
import { DetailList } from '../../components/detail-list.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { generatesText, modalityText } from '../../format/modality.ts';
import { money } from '../../format/money.ts';
import { bytes, whole } from '../../format/number.ts';

type Model = ItemOf<'listServedModels'>;

/** The details of a model. Operators see where it comes from too. */
export function ModelDetails({ model, isOperator }: { model: Model; isOperator: boolean }) {
  return <DetailList details={[...detailsOf(model), ...(isOperator ? originOf(model) : [])]} />;
}

function detailsOf(model: Model) {
  const modality = modalityText(model);
  const { context_length: context, context_tokens: configured } = model;
  return [
    { label: 'State', value: <StateBadge status={model} /> },
    ...(modality === null ? [] : [{ label: 'Modality', value: modality }]),
    { label: 'Default model', value: model.is_default ? <Badge tone="accent">Default</Badge> : 'No' },
    {
      label: 'Context length',
      value: context === null && configured === null ? '—' : `${whole(context ?? configured ?? 0)} tokens`,
    },
    ...(model.invalid ? [] : pricesOf(model)),
    { label: 'Quantization', value: model.quantization ?? '—' },
    { label: 'Aliases', value: model.aliases.length === 0 ? 'None' : model.aliases.join(', ') },
  ];
}

/** What only operators get. */
function originOf(model: Model) {
  return [
    { label: 'Defined in', value: model.origin === 'file' ? 'Configuration file' : 'Database (added)' },
    {
      label: 'Source',
      value: model.source ? (
        <span className="font-mono text-xs break-all">{model.source}</span>
      ) : model.invalid ? (
        '—'
      ) : (
        'Other servers'
      ),
    },
    ...(model.embedded
      ? [
          { label: 'File', value: fileText(model) },
          { label: 'Stays in memory', value: model.keep === true ? 'Always' : 'Until others need it' },
          {
            label: 'Memory in use',
            value: model.memory_bytes === null ? '—' : bytes(model.memory_bytes),
          },
        ]
      : []),
    { label: 'License', value: model.license ?? '—' },
  ];
}

function pricesOf(model: Model) {
  const { prompt, input_cache_read: cached, completion } = model.pricing;
  const generates = generatesText(model);
  return [
    { label: 'Prompt price', value: priceText(prompt) },
    ...(generates && cached !== null ? [{ label: 'Cached prompt price', value: priceText(cached) }] : []),
    ...(generates ? [{ label: 'Completion price', value: priceText(completion) }] : []),
  ];
}

function fileText({ size_bytes: size, downloaded }: Model): string {
  const state = downloaded === null ? '—' : downloaded ? 'Downloaded' : 'Not downloaded';
  return size === null ? state : `${state}, ${bytes(size)}`;
}

function priceText(usd: string): string {
  return /[1-9]/.test(usd) ? `${money(usd)} per million tokens` : 'Free';
}
