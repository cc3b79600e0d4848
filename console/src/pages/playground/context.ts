import { createContext, use, useSyncExternalStore } from 'react';
import type { Element } from '../../api/client.ts';
import type { Answer } from './answer.ts';
import type { Change, Draft } from './draft.ts';
import type { LiveAnswers } from './live.ts';
import type { Faults } from './settings.ts';

/** A model that the service has, ready or not. */
export type Model = Element<'listServedModels'>;

/** What is in the playground. */
export interface Playground {
  draft: Draft;
  /** What is wrong with the settings; nothing is sent until it is mended. */
  faults: Faults;
  models: readonly Model[];
}

/** What can be done in it: the same functions for as long as it stands. */
export interface Actions {
  live: LiveAnswers;
  change: (change: Change) => void;
  /** Asks every model: for the next turn, or for a completion. */
  send: () => void;
  /** Adds what was typed as a turn, and asks nobody. */
  add: () => void;
  /** Asks again from this turn on, in its own column; `text`: it says this from now on. */
  runFrom: (turn: string, text?: string) => void;
  stop: () => void;
  clear: () => void;
}

/** Both, for all parts of the playground; apart, so that what only does things is not drawn with every key. */
export const PlaygroundContext = createContext<Playground | null>(null);
export const ActionsContext = createContext<Actions | null>(null);

/** The playground that the component is in. */
export function usePlayground(): Playground {
  return present(use(PlaygroundContext));
}

/** What can be done in it. */
export function useActions(): Actions {
  return present(use(ActionsContext));
}

function present<Value>(value: Value | null): Value {
  if (value === null) throw new TypeError('a part of the playground stands outside of it');
  return value;
}

/** Whether an answer is under way. */
export function useIsRunning(): boolean {
  const { live } = useActions();
  return useSyncExternalStore(live.subscribe, () => live.count > 0);
}

/** Whether the answer of that id is under way. */
export function useIsLive(id: string): boolean {
  const { live } = useActions();
  return useSyncExternalStore(live.subscribe, () => live.read(id) !== undefined);
}

/** The answer of that id while it is under way, as far as it has come. */
export function useLiveAnswer(id: string): Answer | undefined {
  const { live } = useActions();
  return useSyncExternalStore(live.subscribe, () => live.read(id));
}
