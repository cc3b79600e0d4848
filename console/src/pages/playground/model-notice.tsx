import { capabilityWarning, type Capability } from './model-text.ts';
import { usePlayground } from './state.tsx';

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
