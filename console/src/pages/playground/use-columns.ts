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
  return {
    choose: (column, model) => {
      change({ type: 'model', column, model });
      const [first] = draft.columns;
      changeQuery(
        { ...(first && { model: first.model }), [NAMES[column] ?? 'model']: model },
        { replace: true },
      );
    },
    close: (column) => {
      change({ type: 'close', column });
      const left = draft.columns.find((_, index) => index !== column);
      changeQuery({ model: left?.model ?? null, compare: null }, { replace: true });
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
    for (const [column, wanted] of [model, compare].entries()) {
      if (wanted !== null && models.some(({ id }) => id === wanted)) {
        change({ type: 'model', column, model: wanted });
      }
    }
  }, [model, compare, models, change]);
  useEffect(() => {
    if (mode === 'chat' || mode === 'text') change({ type: 'set', values: { mode } });
  }, [mode, change]);
  useEffect(() => {
    // One that is no longer served, or was never chosen.
    for (const [index, column] of draft.columns.entries()) {
      if (models.some(({ id }) => id === column.model)) continue;
      const begin = modelToBeginWith(models, draft.columns[1 - index]?.model);
      if (begin !== '') change({ type: 'model', column: index, model: begin });
    }
  }, [draft.columns, models, change]);
}
