import {
  createContext,
  use,
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
import { readStored, writeStored } from '../../state/user-storage.ts';
import type { Answer } from './answer.ts';
import {
  added,
  answersOf,
  changed,
  cleared,
  completing,
  continued,
  removedTurns,
  rerun,
  sent,
  type Change,
  type Draft,
  type Pending,
} from './draft.ts';
import { LiveAnswers } from './live.ts';
import { initialModel, type Model } from './model-text.ts';
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
  change: (change: Change) => void;
  /** Sends the next request to every model. */
  send: () => void;
  /** Adds the input as a turn without sending a request. */
  add: () => void;
  /** Deletes a turn, and offers to undo it. */
  remove: (turn: string) => void;
  /** Runs again from this turn, in its column; `text` replaces the text of the turn. Later turns can be restored. */
  runFrom: (turn: string, text?: string) => void;
  /** Sends the results of the calls of this turn, and drops later turns of its column, which can be restored. */
  continueFrom: (turn: string) => void;
  /** Sets the model of a column, or opens the second column with it. */
  chooseModel: (column: number, model: string) => void;
  /** Closes one of two columns, and offers to undo it. */
  closeColumn: (column: number) => void;
  stop: () => void;
  clear: () => void;
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
  /** Called when the user sends a request with invalid settings. */
  onInvalid: () => void;
  children: ReactNode;
}

/** Provides state and actions of the playground, restored from this browser. */
export function PlaygroundProvider({ accountId, models, onInvalid, children }: PlaygroundProviderProps) {
  const { user } = useSession();
  const [draft, change] = useReducer(changed, user.id, (id) => fromStored(readStored(id)));
  const [live] = useState(() => new LiveAnswers());
  const errors = useMemo(() => validationErrors(draft.settings, draft.mode), [draft.settings, draft.mode]);
  const isStored = useStoredDraft(draft, live, user.id);
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
  useUrl(draft, models, change);
  const [, changeQuery] = useQueryState();

  // Actions read the current state, not the state of the last render.
  const now = useRef({ ...playground, accountId, onInvalid, changeQuery });
  useEffect(() => {
    now.current = { ...playground, accountId, onInvalid, changeQuery };
  });

  const actions = useMemo((): Actions => {
    const answer = async ({ id, column: index }: Pending, from: Draft) => {
      const column = from.columns[index];
      if (column === undefined) return;
      const { accountId, models } = now.current;
      const { model } = column;
      const pricing = models.find((one) => one.id === model)?.pricing ?? null;
      const request = { id, accountId, model, pricing, endpoint: from.mode, stream: from.settings.stream };
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
      const before = now.current.draft;
      change({ type: 'replace', draft });
      const count = removedTurns(before, draft);
      if (count === 0) return;
      const restore = () => {
        live.stop();
        replace({ ...withEnded(now.current.draft, live), columns: before.columns }, 'Messages restored');
      };
      notify.success(done ?? `${counted(count, 'message')} removed`, { label: 'Undo', run: restore });
    };
    const start = (next: { draft: Draft; pending: readonly Pending[] }) => {
      if (live.count > 0) return;
      if (Object.keys(now.current.errors).length > 0) {
        now.current.onInvalid();
        return;
      }
      replace(next.draft);
      for (const pending of next.pending) void answer(pending, next.draft);
    };
    return {
      live,
      change,
      send: () => {
        const { draft } = now.current;
        start(draft.mode === 'chat' ? sent(draft) : completing(draft));
      },
      add: () => {
        if (live.count === 0) change({ type: 'replace', draft: added(now.current.draft) });
      },
      remove: (turn) => replace(changed(now.current.draft, { type: 'delete', turn })),
      runFrom: (turn, text) => {
        const { draft } = now.current;
        start(rerun(text === undefined ? draft : changed(draft, { type: 'edit', turn, text }), turn));
      },
      continueFrom: (turn) => start(continued(now.current.draft, turn)),
      // These update the URL first, because `useUrl` applies it to the draft.
      chooseModel: (column, model) => {
        const [first] = now.current.draft.columns;
        const chosen = { ...(first && { model: first.model }), [column === 0 ? 'model' : 'compare']: model };
        now.current.changeQuery(chosen, { replace: true });
        change({ type: 'model', column, model });
      },
      closeColumn: (column) => {
        const { draft } = now.current;
        const left = draft.columns.find((_, index) => index !== column);
        now.current.changeQuery({ model: left?.model ?? null, compare: null }, { replace: true });
        replace(changed(draft, { type: 'close', column }));
      },
      stop: () => live.stop(),
      clear: () => {
        live.stop();
        change({ type: 'replace', draft: cleared(now.current.draft) });
      },
    };
  }, [live]);

  return (
    <ActionsContext value={actions}>
      <PlaygroundContext value={playground}>{children}</PlaygroundContext>
    </ActionsContext>
  );
}

/** Applies the mode and the models in the URL, and replaces models that no longer exist. */
function useUrl(draft: Draft, models: readonly Model[], change: (change: Change) => void): void {
  const [query] = useQueryState();
  const [model, compare, mode] = [query.get('model'), query.get('compare'), query.get('mode')];
  useEffect(() => {
    if (mode === 'chat' || mode === 'text') change({ type: 'set', values: { mode } });
  }, [mode, change]);
  useEffect(() => {
    const served = (id: string | null | undefined) => models.some((one) => one.id === id);
    for (const [index, wanted] of [model, compare].entries()) {
      const now = draft.columns[index]?.model;
      if (wanted !== null && served(wanted)) change({ type: 'model', column: index, model: wanted });
      else if (now !== undefined && !served(now)) {
        // The model no longer exists, or none was selected.
        const other = draft.columns[1 - index]?.model;
        change({ type: 'model', column: index, model: initialModel(models, other) });
      }
    }
  }, [model, compare, draft.columns, models, change]);
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

/**
 * Stores the draft in this browser, even if the page is closed during a debounce or a response. Returns whether it is
 * stored. If not, the browser asks before it closes the page.
 */
function useStoredDraft(draft: Draft, live: LiveAnswers, userId: string): boolean {
  const newest = useRef(draft);
  const [isStored, setStored] = useState(true);
  useEffect(() => {
    newest.current = draft;
    const timer = setTimeout(() => setStored(writeStored(userId, storedText(draft))), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [draft, userId]);
  useEffect(() => {
    const keepNewest = () => void writeStored(userId, storedText(withEnded(newest.current, live)));
    addEventListener('pagehide', keepNewest);
    return () => {
      removeEventListener('pagehide', keepNewest);
      keepNewest();
    };
  }, [live, userId]);
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
