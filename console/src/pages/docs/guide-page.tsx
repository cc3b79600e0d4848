import { useQuery } from '@tanstack/react-query';
import { BookOpen } from 'lucide-react';
import { useEffect, useRef } from 'react';
import { useLocation, useParams } from 'wouter';
import type { GuideContent } from '../../../guide.ts';
import { ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { GUIDES, guidesOf } from '../../components/guide-pages.ts';
import { Page } from '../../components/page.tsx';
import { EmptyState, Skeletons } from '../../components/states.tsx';
import { useHrefWithAccount } from '../../state/account.ts';
import { useSession } from '../../state/session.tsx';
import { DocsNav } from './docs-nav.tsx';

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
          <DocsNav
            label="Guides"
            current={`/docs/guide/${slug}`}
            groups={groups.map(({ label, pages }) => ({
              label,
              links: pages.map(({ slug: name, title }) => ({ to: `/docs/guide/${name}`, title })),
            }))}
          />
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
          <Skeletons heights={['h-5', 'h-40']} />
        ) : (
          <Content key={slug} content={content.data} />
        )}
      </div>
    </Page>
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
