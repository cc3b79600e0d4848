import { useEffect, useRef, useState } from 'react';
import { ApiError } from '../../api/client.ts';
import { embed } from '../../api/embed.ts';
import { generate } from '../../api/generate.ts';
import { counted, fixed } from '../../format/number.ts';

/** The first request, and its response as it arrives. */
export interface FirstCall {
  state: 'idle' | 'running' | 'done' | 'failed';
  text: string;
  requestId: string | null;
  error: ApiError | null;
}

const IDLE: FirstCall = { state: 'idle', text: '', requestId: null, error: null };

type Body = Readonly<Record<string, unknown>>;

/** Sends a chat completion request, or one for an embedding if it has an `input`, with the key. Unmounting cancels it. */
export function useFirstCall(apiKey: string): [FirstCall, (body: Body) => Promise<void>] {
  const [call, setCall] = useState(IDLE);
  const running = useRef<AbortController>(null);
  useEffect(() => () => running.current?.abort(), []);
  const update = (values: Partial<FirstCall>) => setCall((now) => ({ ...now, ...values }));
  const send = async (body: Body): Promise<void> => {
    const { signal } = (running.current = new AbortController());
    setCall({ ...IDLE, state: 'running' });
    try {
      if (body['input'] !== undefined) {
        const { vectors, requestId } = await embed({ body, key: apiKey, signal });
        update({ requestId, text: vectorText(vectors[0] ?? []) });
      } else {
        for await (const event of generate({ body, key: apiKey, signal })) {
          if (event.type === 'accepted') update({ requestId: event.requestId });
          if (event.type === 'text') setCall((now) => ({ ...now, text: now.text + event.text }));
          if (event.type === 'fault') throw event.error;
        }
      }
      update({ state: 'done' });
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      update({ state: 'failed', error });
    }
  };
  return [call, send];
}

const SHOWN = 4;

function vectorText(vector: readonly number[]): string {
  const numbers = vector.slice(0, SHOWN).map((number) => fixed(number, SHOWN));
  return `A vector of ${counted(vector.length, 'number')}: ${numbers.join(', ')}, …`;
}
