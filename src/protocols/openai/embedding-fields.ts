import { choice, number, structured, type Field } from '../field.ts';
import { model, user } from './fields.ts';
import { MAX_BODY_VALUES } from '../../json/json-body.ts';
import { type ValueBounds } from '../../core/protocol.ts';

/** The fields of `POST /v1/embeddings`. */

/** OpenAI's limit. */
export const MAX_INPUTS = 2048;

/** Enough for the token IDs of a thousand inputs of common length. */
export const BODY_VALUES: ValueBounds = { values: 320_000, notNumbers: MAX_BODY_VALUES };

/** More than any model has. */
const MAX_DIMENSIONS = 65_536;

const EMBEDDING = ['embedding'] as const;

const text = { type: 'string', minLength: 1 } as const;
const tokens = { type: 'array', minItems: 1, items: { type: 'integer', minimum: 0 } } as const;
const listOf = (items: typeof text | typeof tokens) =>
  ({ type: 'array', minItems: 1, maxItems: MAX_INPUTS, items }) as const;

export const input = structured('input', {
  type: 'string or array',
  schema: { oneOf: [text, listOf(text), tokens, listOf(tokens)] },
  kinds: EMBEDDING,
  required: true,
  bounds: `1 to ${MAX_INPUTS} inputs, none empty`,
  description:
    "A text, an array of texts, an array of token IDs, or an array of such arrays. Each input must fit into the model's context; none is truncated.",
});

export const encodingFormat = choice('encoding_format', ['float', 'base64'], {
  kinds: EMBEDDING,
  default: '`"float"`',
  description:
    "How vectors are written: arrays of numbers, or Base64 of numbers in 32 bits, little-endian. OpenAI's libraries ask for `base64` and return numbers.",
});

export const dimensions = number(
  'dimensions',
  { type: 'integer', minimum: 1, maximum: MAX_DIMENSIONS },
  null,
  {
    kinds: EMBEDDING,
    default: 'the length of the vectors of the model',
    description: 'Length of the vectors. Other lengths than its own only if the model supports them.',
  },
);

export const EMBEDDING_FIELDS: readonly Field[] = [model, input, encodingFormat, dimensions, user];
