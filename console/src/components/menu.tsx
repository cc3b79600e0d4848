import { Menu as Base } from '@base-ui/react/menu';
import { Check, Ellipsis } from 'lucide-react';
import type { ReactElement, ReactNode } from 'react';
import { IconButton } from './button.tsx';
import { classNames } from './class-names.ts';
import { POPUP } from './popup.ts';

interface MenuProps {
  /** The button that opens the menu; it needs an accessible name. */
  trigger: ReactElement<Record<string, unknown>>;
  align?: 'start' | 'end';
  side?: 'top' | 'bottom';
  children: ReactNode;
}

export function Menu({ trigger, align = 'end', side = 'bottom', children }: MenuProps) {
  return (
    <Base.Root>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner
          sideOffset={4}
          align={align}
          side={side}
          collisionPadding={8}
          className="z-50 outline-none"
        >
          <Base.Popup className={classNames(POPUP, 'max-h-(--available-height) min-w-44 overflow-y-auto')}>
            {children}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

/** The menu of a row. `label`: the name of its button. */
export function RowMenu({ label, children }: { label: string; children: ReactNode }) {
  return (
    <Menu
      trigger={
        <IconButton label={label}>
          <Ellipsis />
        </IconButton>
      }
    >
      {children}
    </Menu>
  );
}

const ENTRY =
  'flex cursor-default items-center gap-2.5 rounded-md px-2.5 py-1.5 text-sm outline-none select-none data-highlighted:bg-hover';

interface MenuItemProps {
  icon?: ReactNode;
  danger?: boolean;
  disabled?: boolean;
  /** An element to render instead, such as a link. */
  render?: ReactElement<Record<string, unknown>>;
  onClick?: () => void;
  children: ReactNode;
}

export function MenuItem({
  icon,
  danger = false,
  disabled = false,
  render,
  onClick,
  children,
}: MenuItemProps) {
  return (
    <Base.Item
      disabled={disabled}
      render={render}
      onClick={onClick}
      className={classNames(
        ENTRY,
        'data-disabled:opacity-50 [&_svg]:size-4 [&_svg]:shrink-0',
        danger ? 'text-bad' : 'text-ink [&_svg]:text-ink-3',
      )}
    >
      {icon}
      {children}
    </Base.Item>
  );
}

export function MenuSeparator() {
  return <Base.Separator className="mx-1 my-1 h-px bg-line" />;
}

interface MenuGroupProps {
  label: string;
  choices: readonly { value: string; label: string }[];
}

export function MenuChoices(props: MenuGroupProps & { value: string; onChange: (value: string) => void }) {
  return (
    <Base.RadioGroup value={props.value} onValueChange={(chosen: string) => props.onChange(chosen)}>
      <Base.GroupLabel className={GROUP_LABEL}>{props.label}</Base.GroupLabel>
      {props.choices.map(({ value, label }) => (
        <Base.RadioItem key={value} value={value} closeOnClick className={ENTRY}>
          <span className="min-w-0 flex-1 truncate">{label}</span>
          <Base.RadioItemIndicator>{TICK}</Base.RadioItemIndicator>
        </Base.RadioItem>
      ))}
    </Base.RadioGroup>
  );
}

interface MenuChecksProps extends MenuGroupProps {
  checked: readonly string[];
  onChange: (checked: readonly string[]) => void;
}

/** A labeled group of entries that are checked or not. The menu stays open. */
export function MenuChecks({ label, checked, choices, onChange }: MenuChecksProps) {
  const change = (value: string, isOn: boolean) =>
    onChange(isOn ? [...checked, value] : checked.filter((other) => other !== value));
  return (
    <Base.Group>
      <Base.GroupLabel className={GROUP_LABEL}>{label}</Base.GroupLabel>
      {choices.map(({ value, label: text }) => (
        <Base.CheckboxItem
          key={value}
          checked={checked.includes(value)}
          onCheckedChange={(isOn) => change(value, isOn)}
          className={ENTRY}
        >
          <span className="min-w-0 flex-1 truncate">{text}</span>
          <Base.CheckboxItemIndicator>{TICK}</Base.CheckboxItemIndicator>
        </Base.CheckboxItem>
      ))}
    </Base.Group>
  );
}

const GROUP_LABEL = 'px-2.5 py-1.5 text-2xs font-medium text-ink-3';
const TICK = <Check className="size-3.5 text-accent" />;
