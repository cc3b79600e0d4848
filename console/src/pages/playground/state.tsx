import { createContext, use, useEffect, useMemo, useSyncExternalStore, type ReactNode } from 'react';
import { useLeaveWarning } from '../../state/leave-warning.ts';
import { useQueryState } from '../../state/url-query.ts';
import { isRunning, MAX_COLUMNS, modelsOf, withModel } from './draft.ts';
import { initialModel, type Model } from './model-text.ts';
import { Playground, SEPARATOR, type PlaygroundState } from './store.ts';

const Context = createContext<{ playground: Playground; models: readonly Model[] } | null>(null);

function usePlaygroundContext() {
  const context = use(Context);
  if (context === null) throw new TypeError('used outside of the playground');
  return context;
}

export function usePlayground(): Playground {
  return usePlaygroundContext().playground;
}

export function useModels(): readonly Model[] {
  return usePlaygroundContext().models;
}

/** Returns a part of the state. Renders when it changes: `select` must return the same object until then. */
export function usePlaygroundState<Part>(select: (state: PlaygroundState) => Part): Part {
  const playground = usePlayground();
  return useSyncExternalStore(playground.subscribe, () => select(playground.state));
}

export function useIsRunning(): boolean {
  return usePlaygroundState(({ draft }) => isRunning(draft));
}

export function useSelectedModels(): readonly string[] {
  const text = usePlaygroundState(({ draft }) => modelsOf(draft).join(SEPARATOR));
  return useMemo(() => text.split(SEPARATOR), [text]);
}

interface PlaygroundProviderProps {
  playground: Playground;
  /** The account that is charged. */
  accountId: string;
  models: readonly Model[];
  /** The chat is shown, to which the models in the URL then belong. */
  isShown: boolean;
  /** Called when the user sends a request with invalid settings. */
  onInvalid: () => void;
  children: ReactNode;
}

export function PlaygroundProvider(props: PlaygroundProviderProps) {
  const { playground, accountId, models, isShown, onInvalid, children } = props;
  const [query, changeQuery] = useQueryState();
  useEffect(() => playground.surround({ accountId, models, onInvalid, changeQuery }));
  useEffect(() => () => playground.stop(), [playground]);
  const context = useMemo(() => ({ playground, models }), [playground, models]);
  return (
    <Context value={context}>
      <Url model={query.get('model')} compare={query.get('compare')} isShown={isShown} />
      <LeaveWarning />
      {children}
    </Context>
  );
}

/**
 * Applies the models in the URL, and selects one where none is. A model that is no longer served stays selected: a
 * conversation must not continue with another one unasked.
 */
function Url({
  model,
  compare,
  isShown,
}: {
  model: string | null;
  compare: string | null;
  isShown: boolean;
}) {
  const playground = usePlayground();
  const models = useModels();
  const [first] = useSelectedModels();
  useEffect(() => {
    if (!isShown) return;
    const wanted = [model, ...(compare?.split(SEPARATOR) ?? [])].slice(0, MAX_COLUMNS);
    // Only when the URL changes: the actions change the draft and the URL, in any order.
    for (const [column, id] of wanted.entries())
      if (id) playground.change((draft) => withModel(draft, column, id));
  }, [model, compare, playground, isShown]);
  useEffect(() => {
    if (isShown && !model && first === '')
      playground.change((draft) => withModel(draft, 0, initialModel(models)));
  }, [model, first, models, playground, isShown]);
  return null;
}

/** The browser asks before it closes a page that is not stored. */
function LeaveWarning() {
  useLeaveWarning(usePlaygroundState(({ isStored, storesImages }) => !isStored || !storesImages));
  return null;
}
