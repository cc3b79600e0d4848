import {
  NO_OUTPUT,
  NO_USAGE,
  type EmbeddingInput,
  type EmbeddingRequest,
  type GenerationEvent,
  type Usage,
} from '../../core/generation.ts';
import type { Protocol, WholeResponse } from '../../core/protocol.ts';
import { errorBody } from '../../core/error-body.ts';
import * as fields from './embedding-fields.ts';
import { model, user } from './fields.ts';
import { describeEmbeddings } from './openapi.ts';
import { RequestBody } from '../request-body.ts';
import { nonEmptyString, wrongType, wrongValue } from '../../json/values.ts';
import { encodeVector, formatVector } from '../../json/vectors.ts';

/** OpenAI's embeddings. */
export const EMBEDDINGS: Protocol = {
  id: 'embeddings',
  path: '/v1/embeddings',
  kind: 'embedding',
  bodyValues: fields.BODY_VALUES,
  parse: (object, options) => {
    const body = new RequestBody(object, fields.EMBEDDING_FIELDS, options.notes);
    const generation = parseEmbeddingRequest(body);
    const format = body.read(fields.encodingFormat) ?? 'float';
    return {
      generation,
      schemaPath: () => '',
      stream: () => {
        throw new TypeError('an embedding is never a stream');
      },
      whole: () => new EmbeddingResponse(generation, format === 'base64' ? base64 : formatVector),
    };
  },
  paramOf: (feature) => (feature === 'embeddings' ? 'model' : 'input'),
  errorStatus: ({ status }) => status,
  errorBody,
  errorFrames: () => '',
  describe: describeEmbeddings,
};

type EmbeddingEvent = Extract<GenerationEvent, { type: 'embedding' }>;

const base64 = (vector: Float32Array): string => `"${encodeVector(vector)}"`;

function parseEmbeddingRequest(body: RequestBody): EmbeddingRequest {
  return {
    kind: 'embedding',
    ...NO_OUTPUT,
    model: body.read(model) ?? '', // Required: `read` throws if it is absent.
    inputs: parseInputs(body.raw(fields.input)),
    dimensions: body.read(fields.dimensions),
    cacheScope: null,
    user: body.read(user),
  };
}

/** Parses the inputs, which are all texts or all token IDs. */
function parseInputs(value: unknown): readonly EmbeddingInput[] {
  if (typeof value === 'string') return [nonEmptyString(value, 'input')];
  const expected = 'a string, or an array of strings, of token IDs, or of arrays of token IDs';
  if (!Array.isArray(value)) throw wrongType('input', expected, value);
  const list: readonly unknown[] = value;
  if (list.length === 0) throw wrongValue('input', 'a string or an array with at least 1 input');
  if (typeof list[0] === 'number') return [parseTokens(list, 'input')];
  if (list.length > fields.MAX_INPUTS)
    throw wrongValue('input', `an array of at most ${fields.MAX_INPUTS} inputs`, list.length);
  const parse = Array.isArray(list[0]) ? parseTokens : nonEmptyString;
  return list.map((item, index) => parse(item, `input[${index}]`));
}

function parseTokens(value: unknown, path: string): readonly number[] {
  if (!Array.isArray(value)) throw wrongType(path, 'an array of token IDs, as the first input is', value);
  if (value.length === 0) throw wrongValue(path, 'an array of at least 1 token ID');
  const invalid = value.findIndex((token) => !Number.isSafeInteger(token) || Number(token) < 0);
  if (invalid === -1) return value as number[];
  const at = `${path}[${invalid}]`;
  if (typeof value[invalid] === 'number')
    throw wrongValue(at, 'a whole number, the ID of a token', value[invalid]);
  throw wrongType(at, 'the ID of a token', value[invalid]);
}

/** Writes the response. Each vector is a part of it, and is written when it arrives. */
class EmbeddingResponse implements WholeResponse {
  readonly #request: EmbeddingRequest;
  readonly #format: (vector: Float32Array) => string;
  readonly #items: Buffer[] = [];
  heldBytes = 0;
  #usage: Usage = NO_USAGE;

  constructor(request: EmbeddingRequest, format: (vector: Float32Array) => string) {
    this.#request = request;
    this.#format = format;
  }

  add(event: GenerationEvent): void {
    switch (event.type) {
      case 'embedding':
        this.#addItem(event);
        break;
      case 'end':
        this.#usage = event.usage;
        break;
      case 'started':
      case 'token':
      case 'reasoning':
      case 'tool-call':
      case 'tool-arguments':
      case 'score':
      case 'finish':
    }
  }

  #addItem(event: EmbeddingEvent): void {
    const item = Buffer.from(this.#formatItem(event), 'latin1');
    this.#items[event.index] = item;
    this.heldBytes += item.length;
  }

  #formatItem({ index, vector }: EmbeddingEvent): string {
    const comma = index === 0 ? '' : ',';
    return `${comma}{"object":"embedding","index":${index},"embedding":${this.#format(vector)}}`;
  }

  body(): readonly Buffer[] {
    const { promptTokens } = this.#usage;
    const usage = `{"prompt_tokens":${promptTokens},"total_tokens":${promptTokens}}`;
    const model = JSON.stringify(this.#request.model);
    return [
      Buffer.from('{"object":"list","data":['),
      ...this.#items,
      Buffer.from(`],"model":${model},"usage":${usage}}`),
    ];
  }
}
