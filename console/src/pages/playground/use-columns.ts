import { useEffect } from 'react';
import { useQueryState } from '../../shell/query.ts';
import { useActions, usePlayground } from './context.ts';
import { modelToBeginWith } from './model-words.ts';

/** How the address names the model of each column. */
const NAMES = ['model', 'compare'] as const;

interface Columns {
  /** Gives a column its model, or opens the second one with it. */
  choose: (column: number, model: string) => void;
  close: (column: number) => void;
}

/** Changes models and columns, in the playground and in the address, so that a link leads to the same. */
export function useColumns(): Columns {
  const { draft } = usePlayground();
  const { change } = useActions();
  const [, changeQuery] = useQueryState();
  // The address goes first: what it says holds for a playground that says something else.
  return {
    choose: (column, model) => {
      const [first] = draft.columns;
      changeQuery(
        { ...(first && { model: first.model }), [NAMES[column] ?? 'model']: model },
        { replace: true },
      );
      change({ type: 'model', column, model });
    },
    close: (column) => {
      const left = draft.columns.find((_, index) => index !== column);
      changeQuery({ model: left?.model ?? null, compare: null }, { replace: true });
      change({ type: 'close', column });
    },
  };
}

/** Takes up what the address asks for, and gives columns a model that the service has. */
export function useArrival(): void {
  const { draft, models } = usePlayground();
  const { change } = useActions();
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
        // One that is no longer served, or was never chosen.
        const other = draft.columns[1 - index]?.model;
        change({ type: 'model', column: index, model: modelToBeginWith(models, other) });
      }
    }
  }, [model, compare, draft.columns, models, change]);
}
