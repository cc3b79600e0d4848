import type { ItemOf } from '../api/client.ts';

/** The last lines that the process of an engine or a program wrote. Nothing, if it wrote none. */
export function EngineOutput({ replica }: { replica: ItemOf<'listEngines'> }) {
  const { output } = replica;
  if (output.length === 0) return null;
  return (
    <section className="space-y-2">
      <h3 className="text-sm font-semibold">Last output</h3>
      <pre
        tabIndex={0}
        className="max-h-64 overflow-auto rounded-lg bg-sunken p-3 text-xs whitespace-pre-wrap wrap-anywhere"
      >
        {output.join('\n')}
      </pre>
    </section>
  );
}
