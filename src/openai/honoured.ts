import type { Dialect } from '../generation.ts';
import { FIELDS } from './fields.ts';
import { unsupported } from './values.ts';

/**
 * Refuses a request that a replica of the model would not honour, whichever of them takes it: `used` are the
 * fields as the parser noted them, `dialects` those of the model's replicas. Throws `unsupported_parameter`.
 */
export function refuseUnsupported(used: readonly string[], dialects: readonly Dialect[]): void {
  for (const path of used) {
    for (const field of FIELDS) {
      if (field.path !== path || field.honouredBy === 'all') continue;
      const { honouredBy } = field;
      if (!dialects.every((dialect) => honouredBy.includes(dialect))) {
        throw unsupported(path, 'is not honoured by the engine of this model');
      }
    }
  }
}
