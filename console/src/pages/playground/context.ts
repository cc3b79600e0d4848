import { createContext, use, useSyncExternalStore } from 'react';
import type { ItemOf } from '../../api/client.ts';
import type { FieldErrors } from '../../components/field-errors.ts';
import type { Answer } from './answer.ts';
import type { Change, Draft } from './draft.ts';
import type { LiveAnswers } from './live.ts';

/** A configured model, ready or not. */
export type Model = ItemOf<'listServedModels'>;

/** State of the playground. */
export interface Playground {
  draft: Draft;
  /** Validation errors of the settings; requests are blocked until they are fixed. */
  errors: FieldErrors;
  models: readonly Model[];
  /** Whether this browser has stored the draft. */
  isStored: boolean;
}

/** Actions of the playground. The functions are stable. */
export interface Actions {
  live: LiveAnswers;
  change: (change: Change) => void;
  /** Sends the next request to every model. */
  send: () => void;
  /** Adds the input as a turn without sending a request. */
  add: () => void;
  /** Applies a change that removes turns, and offers to undo it. */
  remove: (change: Change) => void;
  /** Runs again from this turn, in its column; `text` replaces the text of the turn. Later turns can be restored. */
  runFrom: (turn: string, text?: string) => void;
  /** Sends the results of the calls of this turn, and drops later turns of its column, which can be restored. */
  continueFrom: (turn: string) => void;
  stop: () => void;
  clear: () => void;
}

/** Two contexts, so that components that only use actions do not render on every keystroke. */
export const PlaygroundContext = createContext<Playground | null>(null);
export const ActionsContext = createContext<Actions | null>(null);

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

/** Returns whether the response of this id is in progress. */
export function useIsLive(id: string): boolean {
  const { live } = useActions();
  return useSyncExternalStore(live.subscribe, () => live.read(id) !== undefined);
}

/** Returns the response of this id while it is in progress. */
export function useLiveAnswer(id: string): Answer | undefined {
  const { live } = useActions();
  return useSyncExternalStore(live.subscribe, () => live.read(id));
}
