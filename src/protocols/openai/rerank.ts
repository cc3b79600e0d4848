import {
  NO_OUTPUT,
  NO_USAGE,
  type GenerationEvent,
  type RerankRequest,
  type Usage,
} from '../../core/generation.ts';
import type { Protocol, WholeResponse } from '../../core/protocol.ts';
import { errorBody } from '../../core/error-body.ts';
import { MAX_INPUTS } from './embedding-fields.ts';
import { model, user } from './fields.ts';
import { describeRerank } from './openapi.ts';
import * as fields from './rerank-fields.ts';
import { RequestBody } from '../request-body.ts';
import { jsonObject, nonEmptyString, wrongType, wrongValue } from '../../json/values.ts';

/** Reranking, in the form of Jina's and Cohere's APIs. */
export const RERANK: Protocol = {
  id: 'rerank',
  path: '/v1/rerank',
  // Where the second version of Cohere's clients sends the same requests.
  otherPath: '/v2/rerank',
  kind: 'rerank',
  parse: (object, { notes }) => {
    const body = new RequestBody(object, fields.RERANK_FIELDS, notes);
    const generation: RerankRequest = {
      kind: 'rerank',
      ...NO_OUTPUT,
      model: body.read(model) ?? '', // Required: `read` throws if it is absent.
      query: nonEmptyString(body.raw(fields.query), 'query'),
      documents: parseDocuments(body.raw(fields.documents)),
      cacheScope: null,
      user: body.read(user),
    };
    const most = body.read(fields.topN) ?? Infinity;
    const withDocuments = body.read(fields.returnDocuments);
    return {
      generation,
      schemaPath: () => '',
      stream: () => {
        throw new TypeError('a ranking is never a stream');
      },
      whole: (requestId) => new RerankResponse(requestId, generation, most, withDocuments),
    };
  },
  paramOf: () => 'model',
  errorStatus: ({ status }) => status,
  errorBody,
  errorFrames: () => '',
  describe: describeRerank,
};

function parseDocuments(value: unknown): readonly string[] {
  if (!Array.isArray(value))
    throw wrongType('documents', 'an array of strings or of objects with a text', value);
  if (value.length === 0 || value.length > MAX_INPUTS)
    throw wrongValue('documents', `an array of 1 to ${MAX_INPUTS} documents`, value.length);
  return value.map((item: unknown, index) => {
    const path = `documents[${index}]`;
    return typeof item === 'object'
      ? nonEmptyString(jsonObject(item)['text'], `${path}.text`)
      : nonEmptyString(item, path);
  });
}

/** Collects the scores. The best documents come first, and equal ones in their order. */
class RerankResponse implements WholeResponse {
  readonly #id: string;
  readonly #request: RerankRequest;
  readonly #most: number;
  readonly #withDocuments: boolean;
  readonly #scores: number[] = [];
  readonly heldBytes = 0;
  #usage: Usage = NO_USAGE;

  constructor(id: string, request: RerankRequest, most: number, withDocuments: boolean) {
    this.#id = id;
    this.#request = request;
    this.#most = most;
    this.#withDocuments = withDocuments;
  }

  add(event: GenerationEvent): void {
    if (event.type === 'score') this.#scores[event.index] = event.score;
    else if (event.type === 'end') this.#usage = event.usage;
  }

  body(): string {
    const { model, documents } = this.#request;
    const { promptTokens } = this.#usage;
    const results = this.#scores
      .map((relevance_score, index) => ({
        index,
        relevance_score,
        ...(this.#withDocuments && { document: { text: documents[index] } }),
      }))
      .sort((a, b) => b.relevance_score - a.relevance_score)
      .slice(0, this.#most);
    return JSON.stringify({
      id: this.#id,
      model,
      results,
      usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
      // Where Cohere's clients expect them.
      meta: { tokens: { input_tokens: promptTokens } },
    });
  }
}
