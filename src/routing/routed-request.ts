import type { Engine } from '../engine/engine.ts';
import type { ServiceError } from '../errors.ts';
import type { GenerationRequest } from '../generation.ts';

/** The properties of a request that matter for routing. */
export interface RoutedRequest {
  readonly request: GenerationRequest;
  readonly accountId: string;
  /** Weight of the account's plan. */
  readonly weight: number;
  /** Errors of earlier attempts, by replica. */
  readonly failures: ReadonlyMap<Engine, ServiceError>;
  /** Work already charged to the account for earlier attempts, in prompt tokens. */
  readonly charged: number;
  readonly signal: AbortSignal;
  /** Whether the replica can continue the response. Set only while a response is being continued. */
  readonly suits?: (engine: Engine) => boolean;
}

/** Whether a replica has already failed on the request. */
export function isRetry({ failures, suits }: RoutedRequest): boolean {
  return failures.size > 0 || suits !== undefined;
}
