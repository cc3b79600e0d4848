import type { AuditNote } from '../accounts/audit.ts';
import type { ModelConfig } from '../config/schema.ts';
import { ServiceError } from '../errors.ts';

/** Changes of an added model. */
export interface ModelChange {
  pricing?: { prompt?: string | undefined; completion?: string | undefined } | undefined;
  /** Null: the default. */
  contextTokens?: number | null | undefined;
}

/** Returns the fields of a definition with another context length; undefined: the default. */
export function withContext({ engine }: ModelConfig, contextTokens: number | undefined) {
  return engine ? { engine: { ...engine, contextTokens } } : { contextTokens };
}

/** Returns the error for a change that conflicts with the current models. */
export function conflict(message: string, param = 'model'): ServiceError {
  return new ServiceError('conflict', message, { param });
}

/** Returns the entry of the audit log for a change of a model. */
export function note(action: AuditNote['action'], id: string, detail: AuditNote['detail'] = {}): AuditNote {
  return { action, subject: `model:${id}`, detail };
}
