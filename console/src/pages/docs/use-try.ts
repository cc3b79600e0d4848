import { useCallback, useEffect, useRef, useState } from 'react';
import { playgroundKey } from '../../api/playground-key.ts';
import { rawCall } from '../../api/raw-call.ts';
import { indented } from '../../format/json.ts';

/** A request to send. */
interface TryCall {
  method: string;
  path: string;
  body: string | null;
  /** Sent with a short-lived key of the account, else as the user. */
  inference: boolean;
  accountId: string | null;
}

/** The response so far. */
export interface TryResult {
  /** Null: no response yet. */
  status: number | null;
  /** Relevant headers. */
  headers: readonly (readonly [name: string, value: string])[];
  headersMs: number | null;
  text: string;
  /** Why there is no response, or why it is incomplete. */
  fault: string | null;
}

/** Longer responses are truncated to this many UTF-16 units. */
const MAX_TEXT = 200_000;

/** Headers that are relevant for callers. */
const OF_INTEREST = /^(?:content-type|x-request-id|x-ratelimit-.*|retry-after.*|location)$/;

/** Sends one request at a time and tracks its response. Unmounting cancels it. */
export function useTry() {
  const [response, setResponse] = useState<TryResult | null>(null);
  const [running, setRunning] = useState(false);
  const current = useRef<AbortController | null>(null);
  const stop = useCallback(() => current.current?.abort(), []);
  useEffect(() => stop, [stop]);
  const send = (call: TryCall) => {
    stop();
    const abort = new AbortController();
    current.current = abort;
    setRunning(true);
    setResponse(null);
    void follow(call, abort.signal, (result) => {
      if (current.current === abort) setResponse(result);
    }).finally(() => {
      if (current.current === abort) setRunning(false);
    });
  };
  return { response, running, send, stop };
}

async function follow(call: TryCall, signal: AbortSignal, show: (result: TryResult) => void): Promise<void> {
  let result: TryResult = { status: null, headers: [], headersMs: null, text: '', fault: null };
  try {
    const key = call.inference && call.accountId !== null ? await playgroundKey(call.accountId) : null;
    const { status, headers, headersMs, pieces } = await rawCall({ ...call, key }, signal);
    const shown = [...headers].filter(([name]) => OF_INTEREST.test(name));
    result = { ...result, status, headersMs, headers: shown };
    show(result);
    for await (const piece of pieces) {
      result = { ...result, text: result.text + piece };
      show(result);
      if (result.text.length > MAX_TEXT) throw new RangeError('The response is too long to show in full.');
    }
    show({ ...result, text: indented(result.text) });
  } catch (error) {
    const fault = signal.aborted ? 'Stopped.' : error instanceof Error ? error.message : String(error);
    show({ ...result, fault });
  }
}
