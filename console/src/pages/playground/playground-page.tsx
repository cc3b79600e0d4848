import { CodeXml, MessagesSquare, SlidersHorizontal, SquarePen, SquareTerminal } from 'lucide-react';
import { lazy, Suspense, use, useEffect, useMemo, useState } from 'react';
import { useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Segmented } from '../../components/choices.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Page } from '../../components/page.tsx';
import { Select } from '../../components/select.tsx';
import { ErrorState, Skeleton } from '../../components/states.tsx';
import { useWindowWidths } from '../../components/table.tsx';
import { generatesText, returnsEmbeddings } from '../../format/modality.ts';
import { useAccount } from '../../state/account.ts';
import { useSession } from '../../state/session.tsx';
import { NoAccount } from '../../components/no-account.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { Chat } from './chat.tsx';
import { CompareTexts } from './compare-texts.tsx';
import { hasTurns } from './draft.ts';
import { comparesTexts, type Model } from './model-text.ts';
import { ParametersPanel } from './parameters-panel.tsx';
import { PlaygroundProvider, useIsRunning, usePlayground, usePlaygroundState } from './state.tsx';
import { Playground } from './store.ts';

const ConversationsDialog = lazy(async () => ({
  default: (await import('./stored-lists.tsx')).ConversationsDialog,
}));
const CodeDialog = lazy(() => import('./code-dialog.tsx'));

/** Refetch interval of the models, in milliseconds. */
const MODELS_EVERY_MS = 5000;

export default function PlaygroundPage() {
  const account = useAccount();
  const { user } = useSession();
  const [playground] = useState(() => Playground.of(user.id));
  const models = useRead('listServedModels', undefined, { everyMs: MODELS_EVERY_MS });
  if (account === null) return <NoAccount title="Playground" icon={SquareTerminal} />;
  if (models.data === undefined) {
    return (
      <Page title="Playground" fill>
        {models.error ? <ErrorState error={models.error} retry={() => void models.refetch()} /> : <Loading />}
      </Page>
    );
  }
  return (
    <Suspense
      fallback={
        <Page title="Playground" fill>
          <Loading />
        </Page>
      }
    >
      <Restored accountId={account.id} models={models.data.data} restored={playground} />
    </Suspense>
  );
}

function Loading() {
  return (
    <div role="status" className="space-y-4 p-4 sm:p-6">
      <span className="sr-only">Loading</span>
      <Skeleton className="h-9 w-72 max-w-full" />
      <Skeleton className="h-40 w-full" />
    </div>
  );
}

interface RestoredProps {
  accountId: string;
  models: readonly Model[];
  restored: Promise<Playground>;
}

/** The page, once what this browser has stored is read. */
function Restored({ accountId, models, restored }: RestoredProps) {
  const playground = use(restored);
  // Beside the conversation, the parameters need this width.
  const isWide = useWindowWidths().has('xl');
  const [panel, setPanel] = useState(true);
  const [dialog, setDialog] = useState<'parameters' | 'code' | 'conversations' | null>(null);
  const [query] = useQueryState();
  const compares = comparesTexts(query, models);
  const generating = useMemo(() => models.filter(generatesText), [models]);
  const showParameters = () => (isWide ? setPanel(true) : setDialog('parameters'));
  return (
    <PlaygroundProvider
      playground={playground}
      accountId={accountId}
      models={generating}
      isShown={!compares}
      onInvalid={showParameters}
    >
      <StopByEscape />
      <Announcement />
      <Page
        title="Playground"
        fill
        actions={
          <Toolbar
            compares={compares}
            isPanelOpen={isWide ? panel : dialog === 'parameters'}
            onParameters={() => (isWide ? setPanel(!panel) : setDialog('parameters'))}
            onCode={() => setDialog('code')}
            onConversations={() => setDialog('conversations')}
          />
        }
      >
        <div className="flex h-full">
          <div className="h-full min-w-0 flex-1">
            {compares ? (
              <CompareTexts
                accountId={accountId}
                models={models.filter(returnsEmbeddings)}
                isCodeOpen={dialog === 'code'}
                onCloseCode={() => setDialog(null)}
              />
            ) : (
              <Chat />
            )}
          </div>
          {isWide && panel && !compares && (
            <aside
              aria-label="Parameters"
              className="h-full w-80 shrink-0 overflow-y-auto border-l border-line bg-surface p-5"
            >
              <ParametersPanel />
            </aside>
          )}
        </div>
      </Page>
      <Dialog
        side
        open={dialog === 'parameters' && !compares}
        onClose={() => setDialog(null)}
        title="Parameters"
      >
        <ParametersPanel />
      </Dialog>
      {dialog === 'code' && !compares && (
        <Suspense>
          <CodeDialog onClose={() => setDialog(null)} />
        </Suspense>
      )}
      {dialog === 'conversations' && (
        <Suspense>
          <ConversationsDialog onClose={() => setDialog(null)} />
        </Suspense>
      )}
    </PlaygroundProvider>
  );
}

const ENDPOINTS = [
  { value: 'chat', label: 'Chat' },
  { value: 'embeddings', label: 'Embeddings' },
] as const;

interface ToolbarProps {
  compares: boolean;
  isPanelOpen: boolean;
  onParameters: () => void;
  onCode: () => void;
  onConversations: () => void;
}

function Toolbar({ compares, isPanelOpen, onParameters, onCode, onConversations }: ToolbarProps) {
  const playground = usePlayground();
  const hasMessages = usePlaygroundState(({ draft }) => hasTurns(draft));
  const count = usePlaygroundState(({ errors }) => Object.keys(errors).length);
  const [, changeQuery] = useQueryState();
  const shown = compares ? 'embeddings' : 'chat';
  const choose = (mode: (typeof ENDPOINTS)[number]['value']) => {
    // The models of chats and of embeddings are others.
    changeQuery({ mode, model: null, compare: null }, { replace: true });
  };
  return (
    <>
      {/* Narrow windows have no room for all of them. */}
      <span className="sm:hidden">
        <Select label="Endpoint" small value={shown} choices={ENDPOINTS} onChange={choose} />
      </span>
      <span className="hidden sm:block">
        <Segmented label="Endpoint" value={shown} choices={ENDPOINTS} onChange={choose} />
      </span>
      <div className="ml-auto flex items-center gap-2">
        {!compares && (
          <>
            <Button
              size="small"
              disabled={!hasMessages}
              icon={<SquarePen />}
              onClick={() => playground.newChat()}
            >
              <span className="sr-only sm:not-sr-only">New chat</span>
            </Button>
            <Button size="small" icon={<MessagesSquare />} onClick={onConversations}>
              <span className="sr-only sm:not-sr-only">Conversations</span>
            </Button>
          </>
        )}
        <Button size="small" icon={<CodeXml />} onClick={onCode}>
          <span className="sr-only lg:not-sr-only">Code</span>
        </Button>
        {!compares && (
          <Button
            size="small"
            aria-expanded={isPanelOpen}
            icon={<SlidersHorizontal />}
            onClick={onParameters}
          >
            <span className="sr-only sm:not-sr-only">Parameters</span>
            {count > 0 && <span className="text-bad">{count} invalid</span>}
          </Button>
        )}
      </div>
    </>
  );
}

/** Popups that Escape closes. Toasts are dialogs that are not modal. */
const CLOSED_BY_ESCAPE =
  ':is([role="dialog"], [role="alertdialog"], [role="listbox"], [role="menu"]):not([aria-modal="false"])';

/** Stops responses on Escape, unless Escape closes a dialog or popup. */
function StopByEscape() {
  const playground = usePlayground();
  const isRunning = useIsRunning();
  useEffect(() => {
    if (!isRunning) return;
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || event.defaultPrevented) return;
      const popups = [...document.querySelectorAll(CLOSED_BY_ESCAPE)];
      // Selects keep a hidden list box once they were focused.
      if (!popups.some((popup) => popup.checkVisibility())) playground.stop();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, [isRunning, playground]);
  return null;
}

/** Announces start and end of a response to screen readers, not each token. */
function Announcement() {
  const isRunning = useIsRunning();
  const [began, setBegan] = useState(false);
  if (isRunning && !began) setBegan(true);
  return (
    <p role="status" className="sr-only">
      {isRunning ? 'Generating a response.' : began ? 'The response is complete.' : ''}
    </p>
  );
}
