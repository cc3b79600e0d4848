import { useEffect, useMemo, useReducer, useRef, useState } from 'react';
import { flushSync } from 'react-dom';
import { call } from '../../api/client.ts';
import { notify } from '../../notify.ts';
import { counted } from '../../format/number.ts';
import { useLeaveWarning } from '../../state/leave-warning.ts';
import { readStored, writeStored } from '../../state/user-storage.ts';
import type { Answer } from './answer.ts';
import type { Actions, Model, Playground } from './context.ts';
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
import { recommendedOf, requestOf } from './request.ts';
import { validationErrors } from './settings.ts';
import { fromStored, storedText } from './stored.ts';

interface Options {
  /** The account that is charged. */
  accountId: string;
  userId: string;
  models: readonly Model[];
  /** Called when the user sends a request with invalid settings. */
  onInvalid: () => void;
}

/** Returns state and actions of the playground, restored from this browser. */
export function useNewPlayground(options: Options): { playground: Playground; actions: Actions } {
  const { userId, models } = options;
  const [draft, change] = useReducer(changed, userId, (id) => fromStored(readStored(id)));
  const [live] = useState(() => new LiveAnswers());
  const errors = useMemo(() => validationErrors(draft.settings, draft.mode), [draft.settings, draft.mode]);
  const isStored = useStoredDraft(draft, live, userId);
  const playground = useMemo(() => ({ draft, errors, models, isStored }), [draft, errors, models, isStored]);
  useEffect(() => () => live.stop(), [live]);
  const [found] = useState(draft);
  useEffect(() => {
    // Add the missing usage and cost to responses that were interrupted when the page was closed.
    for (const [id, answer] of answersOf(found)) if (answer.usage === null) void complete(id, answer, change);
  }, [found]);

  // Actions read the current state, not the state of the last render.
  const now = useRef({ ...options, ...playground });
  useEffect(() => {
    now.current = { ...options, ...playground };
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
      remove: (removal) => replace(changed(now.current.draft, removal)),
      runFrom: (turn, text) => {
        const { draft } = now.current;
        start(rerun(text === undefined ? draft : changed(draft, { type: 'edit', turn, text }), turn));
      },
      continueFrom: (turn) => start(continued(now.current.draft, turn)),
      stop: () => live.stop(),
      clear: () => {
        live.stop();
        change({ type: 'replace', draft: cleared(now.current.draft) });
      },
    };
  }, [live]);

  return { playground, actions };
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
