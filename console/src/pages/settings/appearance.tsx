import { Radio } from '@base-ui/react/radio';
import { RadioGroup } from '@base-ui/react/radio-group';
import { Monitor, Moon, Sun } from 'lucide-react';
import { Card } from '../../components/card.tsx';
import { useAppearance, type Appearance as Chosen } from '../../state/appearance.ts';

const CHOICES = [
  { value: 'light', label: 'Light', icon: Sun },
  { value: 'dark', label: 'Dark', icon: Moon },
  { value: 'system', label: 'System', icon: Monitor },
] as const;

/** Selects a light or dark color scheme, or the scheme of the device. */
export function Appearance() {
  const [appearance, choose] = useAppearance();
  return (
    <Card title="Appearance" hint="Stored on this device. “System” follows the device setting.">
      <RadioGroup<Chosen>
        aria-label="Appearance"
        value={appearance}
        onValueChange={(value) => choose(value)}
        className="grid gap-3 sm:grid-cols-3"
      >
        {CHOICES.map(({ value, label, icon: Icon }) => (
          <label
            key={value}
            className="flex items-center gap-3 rounded-lg border border-line-strong p-3.5 text-sm font-medium transition-colors hover:bg-hover has-data-checked:border-accent has-data-checked:bg-accent-soft"
          >
            <Icon className="size-4 text-ink-2" aria-hidden="true" />
            <span className="flex-1">{label}</span>
            <Radio.Root
              value={value}
              className="flex size-4 shrink-0 items-center justify-center rounded-full border border-line-strong bg-surface data-checked:border-accent"
            >
              <Radio.Indicator className="size-2 rounded-full bg-accent" />
            </Radio.Root>
          </label>
        ))}
      </RadioGroup>
    </Card>
  );
}
