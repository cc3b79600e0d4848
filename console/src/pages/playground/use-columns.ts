import { useEffect } from 'react';
import { useQueryState } from '../../state/url-query.ts';
import { useActions, usePlayground } from './context.ts';
import { initialModel } from './model-text.ts';

/** Query parameter of each column's model. */
const NAMES = ['model', 'compare'] as const;

interface Columns {
  /** Sets the model of a column, or opens the second column with it. */
  choose: (column: number, model: string) => void;
  close: (column: number) => void;
}

/** Returns functions that change models and columns in both the playground and the URL. */
export function useColumns(): Columns {
  const { draft } = usePlayground();
  const { change, remove } = useActions();
  const [, changeQuery] = useQueryState();
  // Update the URL first, because `useUrlModels` applies it to the playground.
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
      remove({ type: 'close', column });
    },
  };
}

/** Applies the mode and the models in the URL, and replaces models that no longer exist. */
export function useUrlModels(): void {
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
        // The model no longer exists, or none was selected.
        const other = draft.columns[1 - index]?.model;
        change({ type: 'model', column: index, model: initialModel(models, other) });
      }
    }
  }, [model, compare, draft.columns, models, change]);
}
