import {
  createContext,
  use,
  useCallback,
  useEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
  useSyncExternalStore,
  type ReactNode,
} from 'react';
import { flushSync } from 'react-dom';
import { call } from '../../api/client.ts';
import type { FieldErrors } from '../../components/field-errors.ts';
import { counted } from '../../format/number.ts';
import { notify } from '../../notify.ts';
import { useLeaveWarning } from '../../state/leave-warning.ts';
import { useSession } from '../../state/session.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { readStored, userItems, writeStored } from '../../state/user-storage.ts';
import type { Answer } from './answer.ts';
import {
  added,
  answersOf,
  asked,
  changed,
  continued,
  forNewTab,
  MAX_COLUMNS,
  modelsOf,
  newChat,
  newId,
  opened,
  removedTurns,
  rerun,
  sent,
  type Change,
  type Draft,
  type Pending,
} from './draft.ts';
import { Conversations } from './conversations.ts';
import { LiveAnswers } from './live.ts';
import { initialModel, type Model } from './model-text.ts';
import { presetsOf, type Presets } from './presets.ts';
import { recommendedOf, requestOf } from './request.ts';
import { validationErrors } from './settings.ts';
import { canStoreImages, fromStored, storedText } from './stored.ts';

/** State of the playground. */
interface Playground {
  draft: Draft;
  /** Validation errors of the settings; requests are blocked until they are fixed. */
  errors: FieldErrors;
  /** The configured models, ready or not. */
  models: readonly Model[];
  /** Whether this browser has stored the draft. */
  isStored: boolean;
  /** Whether its images are stored too. */
  storesImages: boolean;
}

/** Actions of the playground. The functions are stable. */
interface Actions {
  live: LiveAnswers;
  conversations: Conversations;
  presets: Presets;
  change: (change: Change) => void;
  /** Sends the next request to every model. */
  send: () => void;
  /** Adds the input as a turn without sending a request. */
  add: () => void;
  /** Asks the model to continue a response that was cut off. */
  continueText: (turn: string) => void;
  /** Deletes a turn, and offers to undo it. */
  remove: (turn: string) => void;
  /** Runs again from this turn, in its column; `text` replaces its text. Offers to undo it. */
  runFrom: (turn: string, text?: string) => void;
  /** Sends the results of the calls of this turn. Removes later turns, and offers to undo it. */
  continueFrom: (turn: string) => void;
  /** Sets the model of a column, or opens the next column with it. */
  chooseModel: (column: number, model: string) => void;
  /** Closes one of several columns, and offers to undo it. */
  closeColumn: (column: number) => void;
  stop: () => void;
  /** Starts a conversation with the same models and parameters. */
  newChat: () => void;
  /** Shows a stored conversation. Stops responses in progress; they keep their text. */
  open: (conversation: string) => void;
  /** Deletes a stored conversation, and offers to undo it. */
  removeConversation: (conversation: string) => void;
}

/** Two contexts, so that components that only use actions do not render on every keystroke. */
const PlaygroundContext = createContext<Playground | null>(null);
const ActionsContext = createContext<Actions | null>(null);

/** Returns the state of the playground. */
export function usePlayground(): Playground {
  return present(use(PlaygroundContext));
}

/** Returns the actions of the playground. */
export function useActions(): Actions {
  return present(use(ActionsContext));
}

function present<Value>(value: Value | null): Value {
  if (value === null) throw new TypeError('used outside of the playground');
  return value;
}

/** Returns whether any response is in progress. */
export function useIsRunning(): boolean {
  const { live } = useActions();
  return useSyncExternalStore(live.subscribe, () => live.count > 0);
}

/** Returns the response of this id while it is in progress. */
export function useLiveAnswer(id: string): Answer | undefined {
  const { live } = useActions();
  return useSyncExternalStore(live.subscribe, () => live.read(id));
}

/** Returns whether the response of this id is in progress. Renders only when it starts and ends. */
export function useIsLive(id: string): boolean {
  const { live } = useActions();
  return useSyncExternalStore(live.subscribe, () => live.read(id) !== undefined);
}

interface PlaygroundProviderProps {
  /** The account that is charged. */
  accountId: string;
  models: readonly Model[];
  /** The chat is shown, to which the models in the URL then belong. */
  isShown: boolean;
  /** Called when the user sends a request with invalid settings. */
  onInvalid: () => void;
  children: ReactNode;
}

/** Provides state and actions of the playground, restored from this browser. */
export function PlaygroundProvider(props: PlaygroundProviderProps) {
  const { accountId, models, isShown, onInvalid, children } = props;
  const { user } = useSession();
  const [conversations] = useState(() => new Conversations(userItems(user.id)));
  const [presets] = useState(() => presetsOf(userItems(user.id)));
  const [draft, change] = useReducer(changed, user.id, (id) => restored(id, conversations));
  const [live] = useState(() => new LiveAnswers());
  const errors = useMemo(() => validationErrors(draft.settings), [draft.settings]);
  const isStored = useStoredDraft(draft, live, user.id, conversations);
  const storesImages = useMemo(() => canStoreImages(draft), [draft]);
  const playground = useMemo(
    () => ({ draft, errors, models, isStored, storesImages }),
    [draft, errors, models, isStored, storesImages],
  );
  useLeaveWarning(!storesImages);
  useEffect(() => () => live.stop(), [live]);
  const [found] = useState(draft);
  useEffect(() => {
    // Add the missing usage and cost to responses that were interrupted when the page was closed.
    for (const [id, answer] of answersOf(found)) if (answer.usage === null) void complete(id, answer, change);
  }, [found]);
  useUrl({ draft, models, change, isShown });
  const [, changeQuery] = useQueryState();

  // Actions read the current state, not the state of the last render.
  const [latest] = useState(() => new Latest<Current>({ ...playground, accountId, onInvalid, changeQuery }));
  useEffect(() => {
    latest.set({ ...playground, accountId, onInvalid, changeQuery });
  });
  const actions = useMemo(
    () => actionsOf({ current: () => latest.value, live, conversations, presets, change }),
    [latest, live, conversations, presets],
  );
  useOtherTabs(latest, actions);

  return (
    <ActionsContext value={actions}>
      <PlaygroundContext value={playground}>{children}</PlaygroundContext>
    </ActionsContext>
  );
}

/** A value that changes without rendering. */
class Latest<Value> {
  #value: Value;

  constructor(value: Value) {
    this.#value = value;
  }

  get value(): Value {
    return this.#value;
  }

  set(value: Value): void {
    this.#value = value;
  }
}

/** What actions read: the state of the last render. */
interface Current extends Playground, Pick<PlaygroundProviderProps, 'accountId' | 'onInvalid'> {
  changeQuery: ReturnType<typeof useQueryState>[1];
}

interface ActionContext extends Pick<Actions, 'live' | 'conversations' | 'presets' | 'change'> {
  current: () => Current;
}

/** Continues a response. The API has no way to begin a response with a given text. */
const CONTINUE = 'Continue exactly where you stopped, without repeating anything.';

function actionsOf(context: ActionContext): Actions {
  const { current, live, conversations, presets, change } = context;
  const answer = async ({ id, column: index }: Pending, from: Draft) => {
    const column = from.columns[index];
    if (column === undefined) return;
    const { accountId, models } = current();
    const { model } = column;
    const pricing = models.find((one) => one.id === model)?.pricing ?? null;
    const request = { id, accountId, model, pricing, stream: from.settings.stream };
    const answer = await live.run({
      ...request,
      body: requestOf(from, column, recommendedOf(models, model), id),
    });
    // Store the response in the draft before it is released here, so that it never disappears.
    flushSync(() => change({ type: 'answered', id, answer }));
    live.release(id);
    await complete(id, answer, change);
  };
  /** Replaces the draft. If turns are missing in the new one, offers to restore them. */
  const replace = (draft: Draft, done?: string) => {
    const before = current().draft;
    const query = modelQuery(modelsOf(draft));
    const { model, compare } = modelQuery(modelsOf(before));
    if (query.model !== model || query.compare !== compare) current().changeQuery(query, { replace: true });
    change({ type: 'replace', draft });
    const count = removedTurns(before, draft);
    if (count === 0) return;
    const restore = () => {
      const shown = withEnded(current().draft, live);
      live.stop();
      // Another conversation may be shown by then.
      conversations.save(shown);
      replace({ ...shown, id: before.id, columns: before.columns }, 'Messages restored');
    };
    notify.success(done ?? `${counted(count, 'message')} removed`, { label: 'Undo', run: restore });
  };
  const start = (next: { draft: Draft; pending: readonly Pending[] }) => {
    if (live.count > 0) return;
    if (Object.keys(current().errors).length > 0) {
      current().onInvalid();
      return;
    }
    replace(next.draft);
    for (const pending of next.pending) void answer(pending, next.draft);
  };
  return {
    live,
    conversations,
    presets,
    change,
    send: () => start(sent(current().draft)),
    continueText: (turn) => start(asked(current().draft, turn, CONTINUE)),
    add: () => {
      if (live.count === 0) change({ type: 'replace', draft: added(current().draft) });
    },
    remove: (turn) => replace(changed(current().draft, { type: 'delete', turn })),
    runFrom: (turn, text) => {
      start(rerun(current().draft, turn, text));
    },
    continueFrom: (turn) => start(continued(current().draft, turn)),
    chooseModel: (column, model) => replace(changed(current().draft, { type: 'model', column, model })),
    closeColumn: (column) => replace(changed(current().draft, { type: 'close', column })),
    stop: () => live.stop(),
    ...conversationActions(context),
  };
}

function conversationActions({
  current,
  live,
  conversations,
  change,
}: ActionContext): Pick<Actions, 'newChat' | 'open' | 'removeConversation'> {
  /** Shows another conversation. Stops responses in progress and stores the text received so far. */
  const show = (next: Draft) => {
    conversations.save(withEnded(current().draft, live));
    live.stop();
    current().changeQuery({ mode: null, ...modelQuery(modelsOf(next)) }, { replace: true });
    change({ type: 'replace', draft: next });
  };
  const open = (id: string) => {
    const found = conversations.open(id);
    if (found === null) {
      notify.error('This conversation was deleted.');
      return;
    }
    const next = opened(current().draft, found);
    show(next);
    for (const [id, answer] of answersOf(next)) if (answer.usage === null) void complete(id, answer, change);
  };
  return {
    newChat: () => show(newChat(current().draft)),
    open,
    removeConversation: (id) => {
      const isShown = current().draft.id === id;
      // First, because it stores the conversation that was shown.
      if (isShown) show(newChat(current().draft));
      const restore = conversations.remove(id);
      if (restore === null) return;
      const undo = () => {
        restore();
        if (isShown) open(id);
      };
      notify.success('Conversation deleted', { label: 'Undo', run: undo });
    },
  };
}

/** Follows the changes that other tabs make to the conversation of this tab. */
function useOtherTabs(latest: Latest<Current>, { live, conversations, change }: Actions): void {
  useEffect(
    () =>
      conversations.follow((id) => {
        const { draft } = latest.value;
        if (id !== draft.id) return;
        if (live.count > 0 || conversations.isChanged(draft)) {
          change({ type: 'set', values: { id: newId() } });
          notify.success('Another tab changed this conversation. This tab continues in a copy.');
          return;
        }
        const found = conversations.open(id);
        if (found !== null) change({ type: 'replace', draft: opened(draft, found) });
      }),
    [latest, conversations, live, change],
  );
}

/** Separates the models in the URL. Their IDs have no commas. */
const SEPARATOR = ',';

/** Returns the part of the URL that selects these models, one for each column. */
function modelQuery([first = '', ...others]: readonly string[]): Record<'model' | 'compare', string> {
  return { model: first, compare: others.join(SEPARATOR) };
}

/**
 * Applies the models in the URL, and selects one where none is. A model that is no longer served stays selected: a
 * conversation must not continue with another one unasked.
 */
function useUrl({ draft, models, change, isShown }: UrlInput): void {
  const [query] = useQueryState();
  const [model, compare] = [query.get('model'), query.get('compare')];
  const [first] = modelsOf(draft);
  useEffect(() => {
    if (!isShown) return;
    const wanted = [model, ...(compare?.split(SEPARATOR) ?? [])].slice(0, MAX_COLUMNS);
    // Only when the URL changes: the actions change the draft and the URL, in any order.
    for (const [column, id] of wanted.entries()) if (id) change({ type: 'model', column, model: id });
  }, [model, compare, change, isShown]);
  useEffect(() => {
    if (isShown && !model && first === '') change({ type: 'model', column: 0, model: initialModel(models) });
  }, [model, first, models, change, isShown]);
}

interface UrlInput extends Pick<Playground, 'draft' | 'models'>, Pick<PlaygroundProviderProps, 'isShown'> {
  change: (change: Change) => void;
}

/** Delay before each attempt to read a receipt, in milliseconds. Requests are settled shortly after they end. */
const RECEIPT_DELAYS_MS = [200, 1000, 3000];

/**
 * Adds usage and cost from the receipt to a response that was stopped or interrupted and therefore lacks them. Never
 * rejects.
 */
async function complete(id: string, answer: Answer, change: (change: Change) => void): Promise<void> {
  const { requestId } = answer;
  if (requestId === null || (answer.usage !== null && answer.cost !== null)) return;
  for (const ms of RECEIPT_DELAYS_MS) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    try {
      const { request } = await call('getReceipt', { params: { id: requestId } });
      if (request.state === 'open') continue;
      const usage = {
        promptTokens: request.prompt_tokens,
        completionTokens: request.completion_tokens,
        reasoningTokens: request.reasoning_tokens,
        cachedTokens: request.cached_tokens,
      };
      change({ type: 'answered', id, answer: { ...answer, usage, cost: request.cost_usd } });
    } catch {
      // Usage and cost stay unknown.
    }
    return;
  }
}

/** Debounce of the storage writes, in milliseconds. */
const PAUSE_MS = 300;

/** Returns the draft of this tab, or the one that a new tab starts with. */
function restored(userId: string, conversations: Conversations): Draft {
  const stored = fromStored(readStored(userId));
  const draft = { ...stored, id: stored.id || newId() };
  const newer = conversations.resume(draft);
  return newer === null ? draft : opened(draft, newer);
}

/**
 * Stores the draft in this browser, even if the page is closed during a debounce or a response. Returns whether it is
 * stored. If not, the browser asks before it closes the page.
 */
function useStoredDraft(
  draft: Draft,
  live: LiveAnswers,
  userId: string,
  conversations: Conversations,
): boolean {
  const newest = useRef(draft);
  const [isStored, setStored] = useState(true);
  const store = useCallback(
    (draft: Draft) => {
      const isWritten = writeStored(userId, storedText(draft), storedText(forNewTab(draft)));
      const saved = conversations.save(draft);
      if (saved.removed > 0) {
        notify.success(`${counted(saved.removed, 'old conversation')} deleted to make room for this one`);
      }
      return isWritten && saved.isStored;
    },
    [userId, conversations],
  );
  useEffect(() => {
    newest.current = draft;
    const timer = setTimeout(() => setStored(store(draft)), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [draft, store]);
  useEffect(() => {
    const keepNewest = () => void store(withEnded(newest.current, live));
    addEventListener('pagehide', keepNewest);
    return () => {
      removeEventListener('pagehide', keepNewest);
      keepNewest();
    };
  }, [live, store]);
  useLeaveWarning(!isStored);
  return isStored;
}

/** Returns the draft with the responses in progress, as if they were stopped now. */
function withEnded(draft: Draft, live: LiveAnswers): Draft {
  return live
    .inProgress()
    .reduce(
      (draft, [id, answer]) => changed(draft, { type: 'answered', id, answer: { ...answer, stopped: true } }),
      draft,
    );
}
