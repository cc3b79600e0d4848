import { useEffect, type ReactNode } from 'react';

interface PageProps {
  title: string;
  /** One sentence: what the page is for. */
  hint?: ReactNode;
  actions?: ReactNode;
  /** Uses the whole width: for the playground and the like. */
  wide?: boolean;
  children: ReactNode;
}

/** A page: its heading, and the title of the browser's tab. */
export function Page({ title, hint, actions, wide = false, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Sluice`;
  }, [title]);
  return (
    <div
      className={`mx-auto w-full px-4 py-6 sm:px-6 lg:px-8 lg:py-8 ${wide ? 'max-w-[100rem]' : 'max-w-6xl'}`}
    >
      <header className="mb-6 flex flex-wrap items-end justify-between gap-x-6 gap-y-3">
        <div className="min-w-0">
          <h1 className="text-xl font-semibold tracking-tight text-ink">{title}</h1>
          {hint !== undefined && <p className="mt-1 max-w-2xl text-sm text-ink-3">{hint}</p>}
        </div>
        {actions !== undefined && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  );
}
