import { useEffect, useRef, type ReactNode } from 'react';
import { classNames } from './class-names.ts';
import { Code } from './code.tsx';
import { Logo } from './logo.tsx';

interface StandalonePageProps {
  title: string;
  hint?: ReactNode;
  /** Above the card, such as the setup steps. */
  above?: ReactNode;
  /** Below the card, such as an alternative sign-in. */
  below?: ReactNode;
  /** Makes room for code. */
  wide?: boolean;
  children: ReactNode;
}

/** The layout of pages outside the shell, such as sign-in and setup: one centered card. */
export function StandalonePage({ title, hint, above, below, wide = false, children }: StandalonePageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Sluice`;
    // The focused element of the previous step is gone: focus the heading for screen readers.
    if (document.activeElement === document.body) heading.current?.focus({ preventScroll: true });
  }, [title]);
  return (
    <main
      className={classNames(
        'mx-auto flex min-h-dvh w-full flex-col px-4 pt-10 pb-12 sm:pt-[min(12vh,7rem)]',
        wide ? 'max-w-[42rem]' : 'max-w-[26rem]',
      )}
    >
      <p className="mb-8 flex items-center justify-center gap-2.5 text-base font-semibold tracking-tight">
        <Logo className="size-7" /> Sluice
      </p>
      {above}
      <div className="rounded-2xl border border-line bg-surface p-5 shadow-[0_1px_2px_oklch(0_0_0/0.04)] sm:p-8">
        <h1 ref={heading} tabIndex={-1} className="text-lg font-semibold tracking-tight outline-none">
          {title}
        </h1>
        {hint !== undefined && <div className="mt-1 text-sm text-ink-3">{hint}</div>}
        <div className="mt-6">{children}</div>
      </div>
      {below !== undefined && <div className="mt-6 text-center text-sm text-ink-3">{below}</div>}
    </main>
  );
}

export function SetupLink() {
  return (
    <div className="space-y-3 text-sm text-ink-2">
      <p>To get a new setup link, run this command on the machine that runs the service:</p>
      <Code
        text="npx sluice setup-link"
        what="command"
        label="Command that prints a setup link"
        language="bash"
      />
      <p className="text-xs leading-5 text-ink-3">The link works once and expires after 60 minutes.</p>
    </div>
  );
}
