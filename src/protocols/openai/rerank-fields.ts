import { MAX_INPUTS } from './embedding-fields.ts';
import { boolean, noted, number, structured, type Field } from '../field.ts';
import { model, user } from './fields.ts';

/** The fields of `POST /v1/rerank`. */

const RERANK = ['rerank'] as const;

const text = { type: 'string', minLength: 1 } as const;

export const query = structured('query', {
  schema: text,
  kinds: RERANK,
  required: true,
  bounds: 'not empty',
  description: 'The text that the documents are compared with.',
});

export const documents = structured('documents', {
  schema: { type: 'array', minItems: 1, maxItems: MAX_INPUTS, items: { oneOf: [text, { type: 'object' }] } },
  kinds: RERANK,
  required: true,
  bounds: `1 to ${MAX_INPUTS} documents, none empty`,
  description:
    "Texts, or objects with a `text`, whose other members are ignored. Each must fit into the model's context together with the query; none is truncated.",
});

export const topN = number('top_n', { type: 'integer', minimum: 1 }, null, {
  kinds: RERANK,
  default: 'all documents',
  description: 'Maximum number of results. All documents are compared and counted.',
});

export const returnDocuments = boolean('return_documents', false, {
  kinds: RERANK,
  description: 'Whether each result has its `document`.',
});

const maxTokensPerDoc = noted('max_tokens_per_doc', {
  kinds: RERANK,
  description: 'Long documents are refused instead of truncated.',
});

export const RERANK_FIELDS: readonly Field[] = [
  model,
  query,
  documents,
  topN,
  returnDocuments,
  maxTokensPerDoc,
  user,
];
