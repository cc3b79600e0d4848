import { useEffect, useRef, type ReactNode } from 'react';
import { Logo } from '../shell/logo.tsx';
import { classNames } from './class-names.ts';

interface FrontProps {
  title: string;
  /** One or two sentences below it. */
  hint?: ReactNode;
  /** Between the name of the service and the title, such as the steps of what is under way. */
  above?: ReactNode;
  /** Below the card, such as another way in. */
  below?: ReactNode;
  /** Wide enough for code. */
  wide?: boolean;
  children: ReactNode;
}

/** A page for somebody who is not inside yet: one thing to do, in the middle, and nothing around it. */
export function Front({ title, hint, above, below, wide = false, children }: FrontProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Sluice`;
    // The step before is gone, and the focus with it: what is next is read out from its beginning.
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
