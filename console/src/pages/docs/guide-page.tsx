import { useQuery } from '@tanstack/react-query';
import { BookOpen } from 'lucide-react';
import { useEffect, useRef } from 'react';
import { useLocation, useParams } from 'wouter';
import type { GuideContent } from '../../../guide.ts';
import { ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Page } from '../../components/page.tsx';
import { EmptyState, Skeleton } from '../../components/states.tsx';
import { useHrefWithAccount } from '../../state/account.ts';
import { useSession } from '../../state/session.tsx';
import { Link } from '../../components/link.tsx';
import { GUIDES, guidesOf } from '../../components/guide-pages.ts';
import { NavDisclosure } from './nav-disclosure.tsx';

const CONTENTS = import.meta.glob<{ default: GuideContent }>('../../../../docs/*.md');

/** The documentation of the service, as in `docs/`. */
export default function GuidePage() {
  const groups = guidesOf(useSession().user);
  const { page: slug = groups[0]?.pages[0]?.slug ?? '' } = useParams<{ page?: string }>();
  const page = GUIDES.find((one) => one.slug === slug);
  const content = useQuery({
    queryKey: ['guide', slug],
    queryFn: async () => (await CONTENTS[`../../../../docs/${slug}.md`]?.())?.default ?? null,
    staleTime: Infinity,
    throwOnError: true,
  });
  return (
    <Page wide title={page?.title ?? 'Guides'}>
      <div className="gap-10 xl:grid xl:grid-cols-[15rem_minmax(0,1fr)]">
        <div className="mb-6 xl:sticky xl:top-6 xl:self-start">
          <NavDisclosure label="All guides">
            <GuideNav groups={groups} current={slug} />
          </NavDisclosure>
        </div>
        {page === undefined ? (
          <Card>
            <EmptyState
              icon={BookOpen}
              title="This guide does not exist"
              action={<ButtonLink to="/docs/guide">View all guides</ButtonLink>}
            >
              Check the URL, or choose a guide from the list.
            </EmptyState>
          </Card>
        ) : content.data === undefined || content.data === null ? (
          <div role="status" className="space-y-4">
            <span className="sr-only">Loading</span>
            <Skeleton className="h-5 w-2/3" />
            <Skeleton className="h-40 w-full" />
          </div>
        ) : (
          <Content key={slug} content={content.data} />
        )}
      </div>
    </Page>
  );
}

function GuideNav({ groups, current }: { groups: ReturnType<typeof guidesOf>; current: string }) {
  return (
    <nav aria-label="Guides">
      {groups.map(({ label, pages }) => (
        <div key={label} className="mb-4">
          <p className="mb-1 px-2 text-2xs font-medium text-ink-3">{label}</p>
          <ul>
            {pages.map(({ slug, title }) => (
              <li key={slug}>
                <Link
                  to={`/docs/guide/${slug}`}
                  aria-current={slug === current ? 'page' : undefined}
                  className="block rounded-md px-2 py-1 text-xs leading-5 text-ink-2 hover:bg-hover hover:text-ink aria-[current]:bg-hover aria-[current]:font-medium aria-[current]:text-ink"
                >
                  {title}
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

function Content({ content: { html, sections } }: { content: GuideContent }) {
  const [, navigate] = useLocation();
  const href = useHrefWithAccount();
  useEffect(() => {
    // The browser has looked for the heading before the page was loaded. Anchors are never percent-encoded.
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }, []);
  const article = useRef<HTMLElement>(null);
  useEffect(() => {
    // Follows links to other pages without loading the console again.
    const onClick = (event: MouseEvent) => {
      const link = event.target instanceof Element ? event.target.closest('a') : null;
      if (link === null || event.defaultPrevented || event.button !== 0) return;
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      const url = new URL(link.href);
      if (link.target !== '' || url.origin !== location.origin || url.pathname === location.pathname) return;
      event.preventDefault();
      navigate(href(url.pathname + url.search + url.hash));
    };
    const element = article.current;
    element?.addEventListener('click', onClick);
    return () => element?.removeEventListener('click', onClick);
  }, [navigate, href]);
  return (
    <div className="max-w-3xl min-w-0">
      {sections.length > 2 && (
        <nav aria-label="On this page" className="mb-6 rounded-lg border border-line bg-surface px-4 py-3">
          <p className="text-xs font-semibold">On this page</p>
          <ul className="mt-1 columns-1 gap-6 text-xs leading-6 sm:columns-2">
            {sections.map(({ id, title }) => (
              <li key={id} className="truncate">
                <a href={`#${id}`} className="text-ink-2 underline-offset-2 hover:text-ink hover:underline">
                  {title}
                </a>
              </li>
            ))}
          </ul>
        </nav>
      )}
      {/* Rendered from our own Markdown at build time. */}
      <article ref={article} className="guide" dangerouslySetInnerHTML={{ __html: html }} />
    </div>
  );
}
