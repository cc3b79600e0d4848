import type { Engine } from '../engine/engine.ts';
import type { ServiceError } from '../errors.ts';
import type { GenerationRequest } from '../generation.ts';

/** A request as routing sees it. */
export interface RoutedRequest {
  readonly request: GenerationRequest;
  readonly accountId: string;
  /** Of the account's plan. */
  readonly weight: number;
  /** The replicas at which it has failed, with the errors. */
  readonly failures: ReadonlyMap<Engine, ServiceError>;
  /** Work that the account was charged for earlier attempts, in prompt tokens. */
  readonly charged: number;
  readonly signal: AbortSignal;
  /** For a response that is continued: whether the replica can do that. */
  readonly suits?: (engine: Engine) => boolean;
}

/** Whether a replica has already failed on the request. */
export function isRetry({ failures, suits }: RoutedRequest): boolean {
  return failures.size > 0 || suits !== undefined;
}
