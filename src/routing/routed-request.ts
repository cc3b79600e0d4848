import type { Engine } from '../engine/engine.ts';
import type { ServiceError } from '../errors.ts';
import type { GenerationRequest } from '../generation.ts';

/** The properties of a request that matter for routing. */
export interface RoutedRequest {
  readonly request: GenerationRequest;
  readonly accountId: string;
  /** Weight of the account's plan. */
  readonly weight: number;
  /** The replicas at which it has failed, with the errors. */
  readonly failures: ReadonlyMap<Engine, ServiceError>;
  /** Work that the account was charged for earlier attempts, in prompt tokens. */
  readonly charged: number;
  readonly signal: AbortSignal;
  /** For a response that is being continued: whether the replica can continue it. */
  readonly suits?: (engine: Engine) => boolean;
}

/** Whether a replica has already failed on the request. */
export function isRetry({ failures, suits }: RoutedRequest): boolean {
  return failures.size > 0 || suits !== undefined;
}
