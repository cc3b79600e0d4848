import { useEffect, type ReactNode } from 'react';
import { Link } from './link.tsx';

interface PageProps {
  title: string;
  /** The page above, shown as a breadcrumb. */
  parent?: { label: string; to: string };
  hint?: ReactNode;
  actions?: ReactNode;
  wide?: boolean;
  /** Fills the window exactly; the content scrolls inside. */
  fill?: boolean;
  children: ReactNode;
}

/** A page whose heading has the same left edge as on every other page. Sets the document title. */
export function Page({ title, parent, hint, actions, wide = false, fill = false, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Sluice`;
  }, [title]);
  if (fill) {
    return (
      <div data-fill="" className="flex min-h-0 flex-1 flex-col">
        <header className="flex min-h-12 flex-wrap items-center gap-x-4 gap-y-2 border-b border-line bg-surface px-4 py-2 sm:min-h-14 sm:px-6 lg:pr-5 lg:pl-8">
          {/* The content has the screen of a phone. */}
          <h1 className="text-base font-semibold tracking-tight text-ink max-sm:sr-only">{title}</h1>
          {actions}
        </header>
        <div className="min-h-0 flex-1">{children}</div>
      </div>
    );
  }
  return (
    <div className={`w-full px-4 py-6 sm:px-6 lg:px-8 lg:py-8 ${wide ? 'max-w-[100rem]' : 'max-w-[75rem]'}`}>
      <header className="mb-6 flex flex-wrap items-end justify-between gap-x-6 gap-y-3">
        <div className="min-w-0">
          {parent !== undefined && (
            <nav aria-label="Breadcrumb" className="mb-1 text-xs text-ink-3">
              <Link to={parent.to} className="rounded underline-offset-2 hover:text-ink hover:underline">
                {parent.label}
              </Link>
              <span aria-hidden="true" className="mx-1.5">
                /
              </span>
              <span aria-current="page">{title}</span>
            </nav>
          )}
          <h1 className="text-xl font-semibold tracking-tight wrap-anywhere text-ink">{title}</h1>
          {hint !== undefined && <p className="mt-1 max-w-2xl text-sm text-ink-3">{hint}</p>}
        </div>
        {actions !== undefined && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  );
}
