import { Tabs as Base } from '@base-ui/react/tabs';
import type { ReactNode } from 'react';

interface Tab<Value extends string> {
  value: Value;
  label: ReactNode;
  content: ReactNode;
}

interface TabsProps<Value extends string> {
  /** Default: uncontrolled, starting with the first tab. */
  value?: Value;
  onChange?: (value: Value) => void;
  label: string;
  tabs: readonly Tab<Value>[];
}

export function Tabs<Value extends string>({ value, onChange, label, tabs }: TabsProps<Value>) {
  return (
    <Base.Root
      {...(value === undefined ? { defaultValue: tabs[0]?.value } : { value })}
      onValueChange={(chosen: Value) => onChange?.(chosen)}
    >
      <div className="border-b border-line">
        <Base.List aria-label={label} className="relative -mb-px flex gap-1 overflow-x-auto">
          {tabs.map((tab) => (
            <Base.Tab
              key={tab.value}
              value={tab.value}
              className="h-10 border-b-2 border-transparent px-2 text-sm font-medium whitespace-nowrap text-ink-3 transition-colors hover:text-ink focus-visible:-outline-offset-2 data-active:border-accent sm:px-3 data-active:text-ink"
            >
              {tab.label}
            </Base.Tab>
          ))}
        </Base.List>
      </div>
      {tabs.map((tab) => (
        <Base.Panel key={tab.value} value={tab.value} className="focus-visible:-outline-offset-2">
          {tab.content}
        </Base.Panel>
      ))}
    </Base.Root>
  );
}
