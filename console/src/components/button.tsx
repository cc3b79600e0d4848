import { useState, type ComponentProps, type MouseEvent, type ReactNode } from 'react';
import { orToast } from '../api/act.ts';
import { classNames } from './class-names.ts';
import { Link } from './link.tsx';
import { Spinner } from './spinner.tsx';

type Kind = 'primary' | 'plain' | 'quiet' | 'danger';
type Size = 'small' | 'medium';

interface ButtonStyle {
  /** At most one `primary` per page; `danger` for destructive actions. */
  kind?: Kind | undefined;
  size?: Size | undefined;
}

const KINDS: Record<Kind, string> = {
  primary: 'bg-accent text-accent-ink hover:bg-accent-hover',
  plain: 'bg-surface text-ink border border-line-strong hover:bg-hover',
  quiet: 'text-ink-2 hover:bg-hover hover:text-ink',
  danger: 'bg-bad text-bad-ink hover:bg-bad-hover',
};

const SIZES: Record<Size, string> = {
  small: 'h-7 px-2.5 text-xs gap-1.5 rounded-md [&>svg]:size-3.5',
  medium: 'h-9 px-3.5 text-sm gap-2 rounded-lg [&>svg]:size-4',
};

function buttonClasses({ kind = 'plain', size = 'medium' }: ButtonStyle): string {
  return classNames(
    'inline-flex shrink-0 items-center justify-center font-medium whitespace-nowrap select-none transition-colors',
    'disabled:opacity-50 disabled:pointer-events-none aria-disabled:opacity-50 aria-disabled:pointer-events-none',
    KINDS[kind],
    SIZES[size],
  );
}

type ButtonProps = Omit<ComponentProps<'button'>, 'onClick'> &
  ButtonStyle & {
    busy?: boolean;
    icon?: ReactNode;
    /** May return a promise: the button is busy until it settles, and shows its error as a toast. */
    onClick?: ((event: MouseEvent<HTMLButtonElement>) => unknown) | undefined;
  };

/** A text button. While `busy` it shows a spinner, keeps the focus and does nothing. */
export function Button({
  kind,
  size,
  busy = false,
  icon,
  className,
  children,
  onClick,
  ...rest
}: ButtonProps) {
  const [running, setRunning] = useState(false);
  const isBusy = busy || running;
  const run = async (event: MouseEvent<HTMLButtonElement>) => {
    if (isBusy) {
      // A submit button does not submit its form either.
      event.preventDefault();
      return;
    }
    const result = onClick?.(event);
    if (!(result instanceof Promise)) return;
    setRunning(true);
    await orToast(result);
    setRunning(false);
  };
  return (
    <button
      type="button"
      className={classNames(buttonClasses({ kind, size }), className)}
      aria-disabled={isBusy || undefined}
      aria-busy={isBusy || undefined}
      {...rest}
      onClick={(event) => void run(event)}
    >
      {isBusy ? <Spinner /> : icon}
      {children}
    </button>
  );
}

/** A button that looks like a text link. */
export function TextButton(props: ComponentProps<'button'>) {
  return (
    <button type="button" className="font-medium text-accent underline-offset-2 hover:underline" {...props} />
  );
}

export function ButtonLink({
  kind,
  size,
  icon,
  className,
  children,
  ...rest
}: ComponentProps<typeof Link> & ButtonStyle & { icon?: ReactNode }) {
  return (
    <Link className={classNames(buttonClasses({ kind, size }), className)} {...rest}>
      {icon}
      {children}
    </Link>
  );
}

/** An icon-only button. `label` is its tooltip and accessible name. */
export function IconButton({
  label,
  className,
  children,
  ...rest
}: ComponentProps<'button'> & { label: string }) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      className={classNames(
        'inline-flex size-8 shrink-0 items-center justify-center rounded-md text-ink-2 transition-colors hover:bg-hover hover:text-ink [&>svg]:size-4',
        'disabled:opacity-50 disabled:pointer-events-none aria-disabled:opacity-50',
        className,
      )}
      {...rest}
    >
      {children}
    </button>
  );
}
