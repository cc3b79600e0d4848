import { lazy, Suspense } from 'react';
import { CopyButton } from './copy.tsx';
import { Tabs } from './tabs.tsx';

const Highlighted = lazy(() => import('./highlighted.tsx'));

interface CodeProps {
  text: string;
  /** Name of the copied value, such as "command". */
  what: string;
  /** Accessible name. */
  label: string;
  /** Default: not highlighted. */
  language?: string;
}

/** A code block with a copy button. Long lines wrap, so that keys and URLs are visible in full. */
export function Code({ text, what, label, language }: CodeProps) {
  return (
    <div className="group relative">
      <pre
        tabIndex={0}
        role="region"
        aria-label={label}
        className="overflow-x-auto rounded-lg bg-sunken p-4 pr-12 font-mono text-xs leading-5 wrap-anywhere whitespace-pre-wrap text-ink"
      >
        {language === undefined ? (
          text
        ) : (
          <Suspense fallback={text}>
            <Highlighted text={text} language={language} />
          </Suspense>
        )}
      </pre>
      <span className="absolute top-0 right-0 rounded-lg bg-sunken pt-1 pr-1.5 pl-2">
        <CopyButton text={text} what={what} />
      </span>
    </div>
  );
}

export function CodeTabs({
  label,
  samples,
}: {
  label: string;
  samples: readonly { language: string; text: string }[];
}) {
  return (
    <Tabs
      label={label}
      tabs={samples.map(({ language, text }) => ({
        value: language,
        label: language,
        content: (
          <div className="pt-3">
            <Code text={text} what="code" label={`${label} in ${language}`} language={language} />
          </div>
        ),
      }))}
    />
  );
}
