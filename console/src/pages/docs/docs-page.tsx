import { useQuery } from '@tanstack/react-query';
import { ChevronRight, Download, SearchX } from 'lucide-react';
import { lazy, Suspense, useCallback, useDeferredValue, useEffect, useMemo } from 'react';
import type { ApiError } from '../../api/client.ts';
import { readDocument, type ApiDocument } from '../../api/document.ts';
import { useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Page } from '../../components/page.tsx';
import { SearchField } from '../../components/search-field.tsx';
import { EmptyState, ErrorState, Skeleton } from '../../components/states.tsx';
import { useAccount } from '../../shell/account.ts';
import { useQueryState } from '../../shell/query.ts';
import { useSession } from '../../shell/session.tsx';
import { DocsNav } from './docs-nav.tsx';
import { OperationSection } from './operation-section.tsx';
import { groupsOf, matching } from './operations.ts';

const TryDialog = lazy(() => import('./try-dialog.tsx'));

/** The API reference, generated from the OpenAPI document of the service. */
export default function DocsPage() {
  const document = useQuery<ApiDocument, ApiError>({
    queryKey: ['document'],
    queryFn: ({ signal }) => readDocument(signal),
    staleTime: Infinity,
  });
  const { public_url, version } = useSession();
  return (
    <Page
      wide
      title="API reference"
      hint={
        <>
          Sluice {version}. Base URL for OpenAI clients:{' '}
          <code className="font-mono text-xs break-all">{public_url}/v1</code>
        </>
      }
      actions={
        <a
          href="/openapi.json"
          download="sluice-openapi.json"
          className="inline-flex h-9 items-center gap-2 rounded-lg border border-line-strong bg-surface px-3.5 text-sm font-medium text-ink transition-colors hover:bg-hover"
        >
          <Download className="size-4" aria-hidden="true" />
          Download OpenAPI document
        </a>
      }
    >
      {document.data === undefined ? (
        document.error === null ? (
          <Waiting />
        ) : (
          <Card>
            <ErrorState error={document.error} retry={() => void document.refetch()} />
          </Card>
        )
      ) : (
        <Reference document={document.data} />
      )}
    </Page>
  );
}

function Reference({ document }: { document: ApiDocument }) {
  const [query, change] = useQueryState();
  const account = useAccount();
  const models = useRead('listServedModels', undefined);
  const all = useMemo(() => groupsOf(document), [document]);
  const search = query.get('q') ?? '';
  const wanted = useDeferredValue(search);
  const groups = useMemo(() => matching(all, wanted), [all, wanted]);
  const tried = all.flatMap(({ entries }) => entries).find(({ id }) => id === query.get('try'));
  const known = models.data?.data ?? [];
  const model = (known.find(({ state }) => state === 'ready') ?? known[0])?.id ?? 'namespace/model';
  const accountId = account?.id ?? 'default';
  const { schemas } = document.components;
  const onTry = useCallback((id: string) => change({ try: id }), [change]);
  useFragment();
  return (
    <div className="gap-10 xl:grid xl:grid-cols-[15rem_minmax(0,1fr)]">
      <div className="mb-6 xl:sticky xl:top-6 xl:self-start">
        <SearchField
          label="Search operations"
          className="xl:mb-4"
          value={search}
          onChange={(q) => change({ q }, { replace: true })}
        />
        <div className="hidden xl:block">
          <DocsNav groups={groups} />
        </div>
        <details className="group mt-3 rounded-lg border border-line bg-surface xl:hidden">
          <summary className="flex h-9 list-none items-center gap-2 px-3 text-xs font-medium [&::-webkit-details-marker]:hidden">
            <ChevronRight
              className="size-3.5 text-ink-3 transition-transform group-open:rotate-90"
              aria-hidden="true"
            />
            All operations
          </summary>
          <div className="border-t border-line p-2">
            <DocsNav groups={groups} />
          </div>
        </details>
      </div>
      <div className="min-w-0">
        {groups.length === 0 && (
          <EmptyState
            icon={SearchX}
            title="No matching operations"
            action={<Button onClick={() => change({ q: null })}>Clear search</Button>}
          >
            Paths, names and summaries are searched.
          </EmptyState>
        )}
        {groups.map(({ label, entries }) => (
          <div key={label} className="mb-10">
            <h2 className="mb-5 text-lg font-semibold tracking-tight">{label}</h2>
            <div>
              {entries.map((entry) => (
                <OperationSection
                  key={entry.id}
                  entry={entry}
                  schemas={schemas}
                  model={model}
                  accountId={accountId}
                  onTry={onTry}
                />
              ))}
            </div>
          </div>
        ))}
      </div>
      <Suspense>
        {/* The example body needs a model, so models must be loaded. */}
        {tried !== undefined && !models.isPending && (
          <TryDialog
            key={tried.id}
            entry={tried}
            schemas={schemas}
            model={model}
            accountId={account?.id ?? null}
            onClose={() => change({ try: null })}
          />
        )}
      </Suspense>
    </div>
  );
}

/** Scrolls to the section of the URL fragment, which did not exist yet when the browser loaded the page. */
function useFragment(): void {
  useEffect(() => {
    const id = location.hash.slice(1);
    if (id !== '') document.getElementById(id)?.scrollIntoView();
  }, []);
}

function Waiting() {
  return (
    <div role="status" className="space-y-6">
      <span className="sr-only">Loading</span>
      <Skeleton className="h-8 w-60" />
      <Skeleton className="h-72 w-full" />
      <Skeleton className="h-72 w-full" />
    </div>
  );
}
