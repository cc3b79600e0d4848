import { Notice } from '../../components/states.tsx';
import { usePlayground } from './context.ts';
import { capabilityWarning, stateOf, type Capability } from './model-text.ts';

/** Shows the progress of a model that is not ready, and names one that is ready. */
export function ModelNotice({ model }: { model: string }) {
  const { models } = usePlayground();
  const found = models.find(({ id }) => id === model);
  if (found === undefined || found.state === 'ready') return null;
  const ready = models.find(({ state }) => state === 'ready');
  const others = models.filter(({ id, state }) => id !== model && state !== 'ready' && state !== 'down');
  return (
    <Notice tone={found.state === 'down' ? 'bad' : 'warn'} title={`${found.id} is not ready`}>
      <p>
        {stateOf(found)}
        {found.reason !== null && `: ${found.reason}`}.{' '}
        {ready
          ? `${ready.id} is ready; select it instead.`
          : `No model is ready.${others.map((one) => ` ${one.id}: ${stateOf(one).toLowerCase()}.`).join('')}`}
      </p>
    </Notice>
  );
}

/** Warns about selected models that lack a capability, or for which it is unknown. */
export function CapabilityNotice({ capability }: { capability: Capability }) {
  const { draft, models } = usePlayground();
  const selected = models.filter(({ id }) => draft.columns.some(({ model }) => model === id));
  const warnings = selected.flatMap((model) => capabilityWarning(model, capability) ?? []);
  if (warnings.length === 0) return null;
  return (
    <p className="rounded-lg bg-warn-soft px-3 py-2 text-xs leading-5 wrap-anywhere">{warnings.join(' ')}</p>
  );
}
