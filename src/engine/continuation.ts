import { ServiceError } from '../errors.ts';
import { echoedPrompts, toolsOf, totalChoices, type Dialect, type GenerationRequest } from '../generation.ts';
import { DIALECT_TRAITS } from './dialects.ts';

/** The kind of output at the end of a response: `call` if it has a tool call, even a complete one. */
export type OutputPosition = 'text' | 'reasoning' | 'text after reasoning' | 'call';

/** Whether a replica of this dialect can continue the request after an interruption. */
export function canContinue(request: GenerationRequest, dialect: Dialect): boolean {
  if (!hasOneOutput(request)) return false;
  switch (DIALECT_TRAITS[dialect].continues) {
    case 'output':
      return true;
    case 'tokens':
      return isPlainText(request);
    case 'text':
      // Not all servers include the prompt in the repetition penalty, and an assistant message at the end has no start
      // of its own.
      return (
        isPlainText(request) && request.sampling.repetitionPenalty === 1 && !endsWithAssistantMessage(request)
      );
    case 'nothing':
      return false;
  }
}

/** Whether replicas of this dialect continue a generation from the IDs of its tokens, which must be requested. */
export function continuesFromTokenIds(dialect: Dialect): boolean {
  switch (DIALECT_TRAITS[dialect].continues) {
    case 'output':
    case 'tokens':
      return true;
    case 'text':
    case 'nothing':
      return false;
  }
}

/** Whether a generation for which `canContinue` is true can be continued at this position. */
export function canContinueAt(position: OutputPosition, dialect: Dialect): boolean {
  switch (position) {
    case 'text':
      return true;
    case 'text after reasoning':
      // The text of reasoning does not include the markers around it.
      return continuesFromTokenIds(dialect);
    case 'reasoning':
      return DIALECT_TRAITS[dialect].continues === 'output';
    case 'call':
      return false;
  }
}

/** Throws `unsupported_parameter` for a request to continue several choices, an echo or log probabilities. */
export function refuseContinuation(request: GenerationRequest): void {
  if (request.continuation === null || hasOneOutput(request)) return;
  throw new ServiceError(
    'unsupported_parameter',
    '`continue_token_ids` is only supported with one choice, without `echo` and `logprobs`.',
    { param: 'continue_token_ids' },
  );
}

function hasOneOutput(request: GenerationRequest): boolean {
  return totalChoices(request) === 1 && request.logprobs === null && echoedPrompts(request).length === 0;
}

/**
 * Whether the text depends only on the tokens before it. To the server, the earlier tokens are part of the prompt: it
 * would miss a stop sequence that begins in them, start the format again, parse no calls, and ignore the tokens for
 * penalties. (The repetition penalty includes the prompt.)
 */
function isPlainText(request: GenerationRequest): boolean {
  const { presencePenalty, frequencyPenalty } = request.sampling;
  return (
    request.stop.length === 0 &&
    request.responseFormat.type === 'text' &&
    presencePenalty === 0 &&
    frequencyPenalty === 0 &&
    !mayCall(request)
  );
}

function mayCall(request: GenerationRequest): boolean {
  switch (request.kind) {
    case 'chat':
      return toolsOf(request).length > 0 && request.toolChoice.type !== 'none';
    case 'text':
      return false;
  }
}

function endsWithAssistantMessage(request: GenerationRequest): boolean {
  switch (request.kind) {
    case 'chat':
      return request.messages.at(-1)?.role === 'assistant';
    case 'text':
      return false;
  }
}
