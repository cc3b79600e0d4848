import { useEffect, useMemo, useReducer, useRef, useState } from 'react';
import { flushSync } from 'react-dom';
import type { Answer } from './answer.ts';
import type { Actions, Model, Playground } from './context.ts';
import {
  added,
  answersOf,
  changed,
  cleared,
  completing,
  FRESH,
  rerun,
  sent,
  type Change,
  type Draft,
  type Pending,
} from './draft.ts';
import { LiveAnswers } from './live.ts';
import { requestOf } from './request.ts';
import { faultsOf } from './settings.ts';
import { fromStored, placeOf, storedText } from './stored.ts';
import { withReceipt } from './receipt.ts';

interface Given {
  /** The account that pays. */
  accountId: string;
  personId: string;
  models: readonly Model[];
  /** Shows what is wrong with the settings, when somebody wants to send them. */
  onFaults: () => void;
}

/** The playground of this person: what they left in this browser, and what they do from here on. */
export function useNewPlayground(given: Given): { playground: Playground; actions: Actions } {
  const { personId, models } = given;
  const [draft, change] = useReducer(changed, personId, readDraft);
  const [live] = useState(() => new LiveAnswers());
  const faults = useMemo(() => faultsOf(draft.settings, draft.mode), [draft.settings, draft.mode]);
  const playground = useMemo(() => ({ draft, faults, models }), [draft, faults, models]);
  useKept(draft, live, personId);
  useEffect(() => () => live.stop(), [live]);
  const [found] = useState(draft);
  useEffect(() => {
    // What broke off when the page went away last time.
    for (const [id, answer] of answersOf(found)) if (answer.usage === null) void complete(id, answer, change);
  }, [found]);

  // What is done is done to the playground as it is when it is done, not as it was when a button was drawn.
  const now = useRef({ ...given, ...playground });
  useEffect(() => {
    now.current = { ...given, ...playground };
  });

  const actions = useMemo((): Actions => {
    const answer = async ({ id, column: index }: Pending, from: Draft) => {
      const column = from.columns[index];
      if (column === undefined) return;
      const { accountId, models } = now.current;
      const { model } = column;
      const pricing = models.find((one) => one.id === model)?.pricing ?? null;
      const asked = { id, accountId, model, pricing, endpoint: from.mode, stream: from.settings.stream };
      const answer = await live.run({ ...asked, body: requestOf(from, column, id) });
      // It stands in the draft before it is let go of here, so that there is no moment without it.
      flushSync(() => change({ type: 'answered', id, answer }));
      live.release(id);
      await complete(id, answer, change);
    };
    const start = (next: { draft: Draft; pending: readonly Pending[] }) => {
      if (live.count > 0) return;
      if (Object.keys(now.current.faults).length > 0) {
        now.current.onFaults();
        return;
      }
      change({ type: 'replace', draft: next.draft });
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
      runFrom: (turn, text) => {
        const { draft } = now.current;
        start(rerun(text === undefined ? draft : changed(draft, { type: 'edit', turn, text }), turn));
      },
      stop: () => live.stop(),
      clear: () => {
        live.stop();
        change({ type: 'replace', draft: cleared(now.current.draft) });
      },
    };
  }, [live]);

  return { playground, actions };
}

/** Adds what the service counted for an answer that did not tell it itself. */
async function complete(id: string, answer: Answer, change: (change: Change) => void): Promise<void> {
  const known = await withReceipt(answer);
  if (known !== answer) change({ type: 'answered', id, answer: known });
}

/** How long nothing must have been typed until it is kept, in milliseconds: writing on every key would be felt. */
const PAUSE_MS = 300;

/** Keeps the draft in this browser, also when the page goes away in the middle of a pause or of an answer. */
function useKept(draft: Draft, live: LiveAnswers, personId: string): void {
  const newest = useRef(draft);
  useEffect(() => {
    newest.current = draft;
    const timer = setTimeout(() => keep(draft, personId), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [draft, personId]);
  useEffect(() => {
    // Whoever leaves hangs up: what has come until then is what there is of an answer.
    const keepNewest = () => {
      const ended = live
        .underWay()
        .reduce(
          (draft, [id, answer]) =>
            changed(draft, { type: 'answered', id, answer: { ...answer, stopped: true } }),
          newest.current,
        );
      keep(ended, personId);
    };
    addEventListener('pagehide', keepNewest);
    return () => {
      removeEventListener('pagehide', keepNewest);
      keepNewest();
    };
  }, [live, personId]);
}

function keep(draft: Draft, personId: string): void {
  try {
    localStorage.setItem(placeOf(personId), storedText(draft));
  } catch {
    // Storage is full, or closed to us: it holds for this visit.
  }
}

function readDraft(personId: string): Draft {
  try {
    return fromStored(localStorage.getItem(placeOf(personId)));
  } catch {
    return FRESH;
  }
}
