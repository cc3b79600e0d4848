import {
  echoedPrompts,
  estimatedPromptTokens,
  toolsOf,
  type Dialect,
  type GenerationRequest,
} from '../generation.ts';
import { replicaKind } from '../openai/replica-request.ts';
import { StreamReader } from '../openai/stream-reader.ts';
import { UsageMeter } from '../openai/usage-meter.ts';
import { DIALECT_TRAITS } from './dialects.ts';

/** Creates the reader of a replica's server-sent events. */
export function streamReader(request: GenerationRequest, dialect: Dialect): StreamReader {
  const offered = toolsOf(request).map(({ name }) => name);
  const hasWholeTokens = DIALECT_TRAITS[dialect].continues === 'output';
  return new StreamReader(
    replicaKind(request, dialect),
    usageMeter(request, dialect),
    offered,
    hasWholeTokens,
  );
}

/** Creates the meter of a replica's response. */
export function usageMeter(request: GenerationRequest, dialect: Dialect): UsageMeter {
  const { usagePerChoice, continues } = DIALECT_TRAITS[dialect];
  return new UsageMeter({
    promptTokens: estimatedPromptTokens(request),
    echo: echoedPrompts(request).length > 0,
    perChoice: usagePerChoice,
    earlier: request.continuation?.usage ?? null,
    // An engine that restores the state of a generation reports the usage of the whole generation.
    reportsEarlier: continues === 'output',
  });
}
