import { useCallback, useEffect, useRef, useState } from 'react';
import { playgroundKey } from '../../api/playground-key.ts';
import { rawCall } from '../../api/raw-call.ts';

/** A call that is tried. */
interface TryCall {
  method: string;
  path: string;
  body: string | null;
  /** On a short-lived key of the account, else as the person. */
  inference: boolean;
  accountId: string | null;
}

/** What has come of it so far. */
export interface Tried {
  /** Null: no answer has begun. */
  status: number | null;
  /** Those that say something to the caller. */
  headers: readonly (readonly [name: string, value: string])[];
  headersMs: number | null;
  text: string;
  /** Why there is no answer, or no more of it. */
  fault: string | null;
}

/** Longer answers are cut here, in UTF-16 units: nobody reads them on a page. */
const MOST_TEXT = 200_000;

/** Headers that say something to the caller. */
const OF_INTEREST = /^(?:content-type|x-request-id|x-ratelimit-.*|retry-after.*|location)$/;

/** Sends one call at a time and follows its answer; what runs ends with the part that shows it. */
export function useTry() {
  const [answer, setAnswer] = useState<Tried | null>(null);
  const [running, setRunning] = useState(false);
  const current = useRef<AbortController | null>(null);
  const stop = useCallback(() => current.current?.abort(), []);
  useEffect(() => stop, [stop]);
  const send = (call: TryCall) => {
    stop();
    const abort = new AbortController();
    current.current = abort;
    setRunning(true);
    setAnswer(null);
    void follow(call, abort.signal, (tried) => {
      if (current.current === abort) setAnswer(tried);
    }).finally(() => {
      if (current.current === abort) setRunning(false);
    });
  };
  return { answer, running, send, stop };
}

async function follow(call: TryCall, signal: AbortSignal, show: (tried: Tried) => void): Promise<void> {
  let tried: Tried = { status: null, headers: [], headersMs: null, text: '', fault: null };
  try {
    const key = call.inference && call.accountId !== null ? await playgroundKey(call.accountId) : null;
    const { status, headers, headersMs, pieces } = await rawCall({ ...call, key }, signal);
    const shown = [...headers].filter(([name]) => OF_INTEREST.test(name));
    tried = { ...tried, status, headersMs, headers: shown };
    show(tried);
    for await (const piece of pieces) {
      tried = { ...tried, text: tried.text + piece };
      show(tried);
      if (tried.text.length > MOST_TEXT)
        throw new RangeError('The answer is longer than what is shown here.');
    }
    show({ ...tried, text: pretty(tried.text) });
  } catch (error) {
    const fault = signal.aborted ? 'Stopped.' : error instanceof Error ? error.message : String(error);
    show({ ...tried, fault });
  }
}

/** JSON on lines of its own; anything else as it came. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
