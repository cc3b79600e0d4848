import { unsupportedFeature } from '../features.ts';
import { toolsOf, type Dialect, type GenerationRequest } from '../generation.ts';
import type { Protocol } from '../protocol.ts';
import { refuseUnenforced } from './json-schema-dialects.ts';
import { unsupported } from './values.ts';

/**
 * Refuses a request with a feature, or a JSON schema, that a replica of the model does not support. `dialects` belong to
 * the model's replicas. Throws `unsupported_parameter` with the path of the field.
 */
export function refuseUnsupported(
  request: GenerationRequest,
  dialects: readonly Dialect[],
  { paramOf, schemaPath }: Pick<Protocol, 'paramOf' | 'schemaPath'>,
): void {
  const feature = unsupportedFeature(request, dialects);
  if (feature !== null) throw unsupported(paramOf(feature), 'is not supported by the engine of this model');
  for (const dialect of dialects) {
    const { responseFormat } = request;
    if (responseFormat.type === 'json_schema')
      refuseUnenforced(responseFormat.schema, schemaPath(null), dialect);
    for (const [index, { strict, parameters }] of toolsOf(request).entries())
      if (strict) refuseUnenforced(parameters, schemaPath(index), dialect);
  }
}
