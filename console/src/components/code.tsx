import type { ReactNode } from 'react';
import { CopyButton } from './copy.tsx';
import { Tabs } from './tabs.tsx';

/** A code block with a copy button. Long lines scroll. */
export function Code({ text, what, label }: { text: string; what: string; label: string }) {
  return (
    <div className="group relative">
      <pre
        tabIndex={0}
        role="region"
        aria-label={label}
        className="overflow-x-auto rounded-lg bg-sunken p-4 pr-12 font-mono text-xs leading-5 text-ink"
      >
        {text}
      </pre>
      <span className="absolute top-0 right-0 rounded-lg bg-sunken pt-1 pr-1.5 pl-2">
        <CopyButton text={text} what={what} />
      </span>
    </div>
  );
}

/** Code samples of the same request in several languages. */
export function CodeTabs({
  label,
  samples,
  aside,
}: {
  label: string;
  samples: readonly { language: string; text: string }[];
  aside?: ReactNode;
}) {
  return (
    <Tabs
      label={label}
      aside={aside}
      tabs={samples.map(({ language, text }) => ({
        value: language,
        label: language,
        content: (
          <div className="pt-3">
            <Code text={text} what="code" label={`${label} in ${language}`} />
          </div>
        ),
      }))}
    />
  );
}
