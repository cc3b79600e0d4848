import type { Dialect, GenerationRequest } from '../generation.ts';
import { FIELDS } from './fields.ts';
import { refuseUnenforced } from './json-schema-dialects.ts';
import type { ParsedRequest } from './request-body.ts';
import { unsupported } from './values.ts';

/**
 * Refuses a request that a replica of the model would not honor, whichever of them takes it: a field it ignores, or
 * a JSON schema it does not enforce. `dialects` are those of the model's replicas. Throws `unsupported_parameter`.
 */
export function refuseUnsupported(
  { request, used }: ParsedRequest<GenerationRequest>,
  dialects: readonly Dialect[],
): void {
  for (const path of used) {
    for (const field of FIELDS) {
      if (field.path !== path || field.honouredBy === 'all') continue;
      const { honouredBy } = field;
      if (!dialects.every((dialect) => honouredBy.includes(dialect))) {
        throw unsupported(path, 'is not supported by the engine of this model');
      }
    }
  }
  const format = request.responseFormat;
  if (format.type !== 'json_schema') return;
  for (const dialect of dialects) {
    refuseUnenforced(format.schema, 'response_format.json_schema.schema', dialect);
  }
}
