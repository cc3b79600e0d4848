import { Download, SearchX } from 'lucide-react';
import { useDeferredValue, useMemo, type ReactNode } from 'react';
import { Redirect, useParams } from 'wouter';
import { useDocument, type ApiDocument } from '../../api/document.ts';
import { groupsOf, matching, type Entry, type Group } from '../../api/operations.ts';
import { useRead } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { BaseUrl } from '../../components/copy.tsx';
import { Link, TextLink } from '../../components/link.tsx';
import { Page } from '../../components/page.tsx';
import { UrlSearchField } from '../../components/search-field.tsx';
import { EmptyState, Loaded, Skeletons } from '../../components/states.tsx';
import { closestToReady, outputLabel } from '../../format/modality.ts';
import { useAccount } from '../../state/account.ts';
import { useSession } from '../../state/session.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { DocsNav } from './docs-nav.tsx';
import { MethodBadge, OperationDetails } from './operation-details.tsx';

/** The API reference, generated from the OpenAPI document of the service: a list, and one page per operation. */
export default function DocsPage() {
  const { operation } = useParams<{ operation?: string }>();
  const document = useDocument();
  const all = useMemo(() => (document.data === undefined ? [] : groupsOf(document.data)), [document.data]);
  const entries = all.flatMap(({ entries }) => entries);
  const entry = entries.find(({ id }) => id === operation);
  // Redirects old links, which have the operation in the fragment.
  const fragment = location.hash.slice(1);
  if (operation === undefined && entries.some(({ id }) => id === fragment)) {
    return <Redirect replace to={`/docs/${fragment}`} />;
  }
  return (
    <Page
      wide
      {...(entry === undefined
        ? { title: 'API reference', hint: 'Inference with any OpenAI client, and the management API' }
        : {
            title: entry.title,
            hint: hintOf(entry),
            parent: { label: 'API reference', to: '/docs' },
          })}
      actions={
        <a
          href="/openapi.json"
          download="sluice-openapi.json"
          className="inline-flex h-9 items-center gap-2 rounded-lg border border-line-strong bg-surface px-3.5 text-sm font-medium text-ink transition-colors hover:bg-hover"
        >
          <Download className="size-4" />
          Download OpenAPI document
        </a>
      }
    >
      <Loaded card query={document} loading={<Skeletons heights={['h-8', 'h-72', 'h-72']} />}>
        {(loaded) => (
          <Reference
            document={loaded}
            all={all}
            entry={entry}
            isUnknown={operation !== undefined && !entry}
          />
        )}
      </Loaded>
    </Page>
  );
}

/** Returns the summary, unless it only repeats the title. */
function hintOf({ title, summary }: Entry): ReactNode {
  const words = summary.replaceAll(/\b(?:a|an|the) |\.$/g, '');
  return words === title ? undefined : <CodeText text={summary} />;
}

interface ReferenceProps {
  document: ApiDocument;
  all: readonly Group[];
  /** The operation of this page; undefined: the list. */
  entry: Entry | undefined;
  isUnknown: boolean;
}

function Reference({ document, all, entry, isUnknown }: ReferenceProps) {
  const [query, change] = useQueryState();
  const account = useAccount();
  const models = useRead('listServedModels', undefined);
  const search = query.get('q') ?? '';
  const wanted = useDeferredValue(search);
  const groups = useMemo(() => matching(all, wanted), [all, wanted]);
  const known = models.data?.data ?? [];
  const output = OUTPUTS.get(entry?.path ?? '') ?? null;
  const suited = known.filter((one) => outputLabel(one) === output);
  const model = (closestToReady(suited) ?? known[0])?.id ?? 'namespace/model';
  const { schemas } = document.components;
  return (
    <div className="gap-10 xl:grid xl:grid-cols-[15rem_minmax(0,1fr)]">
      <div className="mb-6 space-y-3 xl:sticky xl:top-6 xl:self-start">
        <UrlSearchField label="Search operations" className="w-full" />
        <DocsNav
          key={entry?.id}
          label="Operations"
          current={`/docs/${entry?.id ?? ''}`}
          open={entry !== undefined && search !== ''}
          groups={groups.map(({ label, entries }) => ({
            label,
            links: entries.map(({ id, title, method }) => ({
              to: `/docs/${id}`,
              title,
              aside: (
                <span className="shrink-0 scale-90" aria-hidden="true">
                  <MethodBadge method={method} />
                </span>
              ),
            })),
          }))}
        />
      </div>
      {entry !== undefined ? (
        <OperationDetails
          key={entry.id}
          entry={entry}
          schemas={schemas}
          model={model}
          accountId={account?.id ?? 'default'}
        />
      ) : isUnknown ? (
        <Card>
          <EmptyState
            icon={SearchX}
            title="This operation does not exist"
            action={<ButtonLink to="/docs">View all operations</ButtonLink>}
          >
            Check the URL. The operation may belong to another version of Sluice.
          </EmptyState>
        </Card>
      ) : (
        <Overview groups={groups} search={search} onClear={() => change({ q: null })} />
      )}
    </div>
  );
}

function Overview({
  groups,
  search,
  onClear,
}: {
  groups: readonly Group[];
  search: string;
  onClear: () => void;
}) {
  const { public_url, version } = useSession();
  const base = `${public_url.replace(/\/+$/, '')}/v1`;
  return (
    <div className="min-w-0 space-y-8">
      <Card title="Base URL" hint={`For OpenAI clients. This is Sluice ${version}.`}>
        <BaseUrl url={base} />
        <p className="mt-3 text-sm text-ink-2">
          Send your API key as <code className="font-mono text-xs">Authorization: Bearer sk-sluice-…</code>.{' '}
          <TextLink to="/keys?create=1">Create key</TextLink>, or see{' '}
          <TextLink to="/docs/guide/clients">Client libraries</TextLink>,{' '}
          <TextLink to="/docs/guide/errors">Errors</TextLink> and{' '}
          <TextLink to="/docs/guide/management">Managing accounts over HTTP</TextLink>.
        </p>
      </Card>
      {groups.length === 0 && (
        <EmptyState
          icon={SearchX}
          title="No matching operations"
          action={<Button onClick={onClear}>Clear search</Button>}
        >
          Nothing in the API reference matches “{search}”.
        </EmptyState>
      )}
      {groups.map(({ label, entries }) => (
        <section key={label}>
          <h2 className="mb-2 text-base font-semibold tracking-tight">{label}</h2>
          <ul className="divide-y divide-line rounded-xl border border-line bg-surface">
            {entries.map(({ id, title, method, path, summary }) => (
              <li
                key={id}
                className="relative grid gap-x-4 gap-y-1 px-4 py-3 hover:bg-hover sm:grid-cols-[minmax(0,1fr)_minmax(0,1fr)] sm:px-5"
              >
                <div className="min-w-0">
                  <Link
                    to={`/docs/${id}`}
                    className="text-sm font-medium underline-offset-2 after:absolute after:inset-0 hover:underline"
                  >
                    {title}
                  </Link>
                  <p className="text-xs leading-5 text-ink-3">
                    <CodeText text={summary} />
                  </p>
                </div>
                <p className="flex items-start gap-2">
                  <MethodBadge method={method} />
                  <code className="min-w-0 font-mono text-xs leading-5 wrap-anywhere text-ink-2">{path}</code>
                </p>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}

/** What models return, at the paths for others than those that generate text. */
const OUTPUTS: ReadonlyMap<string, ReturnType<typeof outputLabel>> = new Map([
  ['/v1/embeddings', 'Embeddings'],
  ['/v1/rerank', 'Rerank'],
  ['/v2/rerank', 'Rerank'],
]);
