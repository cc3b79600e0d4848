import type { ItemOf } from '../api/client.ts';
import { Status, type Tone } from '../components/badge.tsx';

export type Request = ItemOf<'listRequests'>;

/** The status or result of a request. */
interface Outcome {
  tone: Tone;
  text: string;
  /** Explanation in one sentence. */
  meaning: string;
}

/** Explanations of errors after a request was accepted. All error codes: docs/errors.md. */
const ERRORS: Readonly<Record<string, string>> = {
  context_length_exceeded: 'The prompt is too long for the context length of the model.',
  invalid_value: 'The engine of this model does not accept the value of a field.',
  unsupported_parameter: 'The engine of this model does not support one of the fields.',
  model_not_found: 'The model does not exist.',
  invalid_api_key:
    'The key was revoked or expired, or its account was suspended or closed, while the request was running.',
  model_not_allowed: 'The model was removed from the key while the request was running.',
  internal_error: 'An error in the service or an engine. The service log has details under this request ID.',
  engine_unavailable: 'No replica of the model was available, or the replica failed during the request.',
  queue_full: 'The queue of the model was full, or the request waited too long.',
  storage_unavailable: 'Usage could not be recorded, so the request was not charged.',
  shutting_down: 'The service was shutting down.',
};

const FINISHES: Readonly<Record<NonNullable<Request['finish_reason']>, string>> = {
  stop: 'The model finished, or reached a stop sequence.',
  length: 'Reached the maximum number of tokens or the context length.',
  tool_calls: 'The model requested a tool call.',
  content_filter: 'The content filter of the provider withheld or cut off the response.',
};

/** Returns the status or result of a request. */
export function outcomeOf({ state, error_code, http_status, finish_reason }: Request): Outcome {
  if (state === 'open')
    return {
      tone: 'accent',
      text: 'Running',
      meaning: 'Waiting for a slot, processing the prompt or generating.',
    };
  if (state === 'interrupted') {
    const meaning =
      'The service stopped or crashed while the request was running. Token counts are from the last checkpoint.';
    return { tone: 'warn', text: 'Interrupted', meaning };
  }
  if (error_code === null) {
    const meaning = finish_reason === null ? 'Completed normally.' : FINISHES[finish_reason];
    return { tone: 'good', text: 'Completed', meaning };
  }
  if (error_code === 'client_disconnected') {
    const meaning =
      'The client closed the connection before the response was complete. Tokens generated until then are charged.';
    return { tone: 'neutral', text: 'Client disconnected', meaning };
  }
  const meaning = ERRORS[error_code] ?? 'The request failed with this error.';
  return { tone: 'bad', text: http_status === null ? error_code : `${http_status} ${error_code}`, meaning };
}

/** The status of a request as a dot and a word. */
export function RequestStatus({ request }: { request: Request }) {
  const { tone, text } = outcomeOf(request);
  return (
    <Status tone={tone} live={request.state === 'open'}>
      {text}
    </Status>
  );
}

/** Returns whether a request asks for embeddings or scores, which have no completion. */
export const hasNoCompletion = ({ endpoint }: Request): boolean =>
  endpoint === 'embeddings' || endpoint === 'rerank';
