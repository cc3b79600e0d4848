import { ChevronsUpDown } from 'lucide-react';
import type { ComponentProps, ReactNode } from 'react';
import { classNames } from '../components/class-names.ts';

interface MenuButtonProps extends ComponentProps<'button'> {
  initial: string;
  look: string;
  heading: ReactNode;
  hint: string;
}

export function MenuButton({ initial, look, heading, hint, className, ...rest }: MenuButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={classNames(
        'flex h-11 w-full items-center gap-2.5 rounded-lg px-2 text-left transition-colors hover:bg-hover',
        className,
      )}
    >
      <span
        className={`flex size-7 shrink-0 items-center justify-center text-xs font-semibold ${look}`}
        aria-hidden="true"
      >
        {initial}
      </span>
      <span className="min-w-0 flex-1">
        <span className="block truncate text-sm leading-4 font-medium">{heading}</span>
        <span className="block truncate text-2xs text-ink-3">{hint}</span>
      </span>
      <ChevronsUpDown className="size-3.5 shrink-0 text-ink-3" />
    </button>
  );
}
