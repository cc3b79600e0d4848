import { endianness } from 'node:os';
import { JsonBudget } from './json-body.ts';
import { readCount, asList, jsonObject, parseJsonObject, type JsonObject } from './values.ts';

/** The vectors of embeddings on the wire: an array of numbers, or Base64 of numbers in 32 bits, little-endian. */

const FLOAT_BYTES = 4;
const IS_LITTLE_ENDIAN = endianness() === 'LE';

/** Returns a vector as Base64. */
export function encodeVector(vector: Float32Array): string {
  const bytes = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
  return (IS_LITTLE_ENDIAN ? bytes : Buffer.from(bytes).swap32()).toString('base64');
}

/** Returns a vector as a JSON array, with the digits that identify each number in 32 bits. */
export function formatVector(vector: Float32Array): string {
  const digits = Array.from(vector, (number) => Number(number.toPrecision(9)));
  return JSON.stringify(digits);
}

/** Reads a vector from a replica in either form. Throws an `Error` unless it has finite numbers. */
export function readVector(value: unknown): Float32Array {
  const vector = typeof value === 'string' ? decodeVector(value) : fromNumbers(value);
  if (vector.length === 0) throw invalidVector('has no numbers');
  // A loop, because a vector has thousands of numbers and a response thousands of vectors.
  for (let index = 0; index < vector.length; index++) {
    if (!Number.isFinite(vector[index])) throw invalidVector('has a number that is not finite');
  }
  return vector;
}

function decodeVector(text: string): Float32Array {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length % FLOAT_BYTES !== 0) throw invalidVector('is not Base64 of numbers in 32 bits');
  // Copied, because the bytes of a short text may not be aligned.
  const copy = Uint8Array.from(bytes);
  if (!IS_LITTLE_ENDIAN) Buffer.from(copy.buffer).swap32();
  return new Float32Array(copy.buffer);
}

function fromNumbers(value: unknown): Float32Array {
  if (!Array.isArray(value)) throw invalidVector('is neither an array nor Base64');
  if (!value.every((number) => typeof number === 'number')) throw invalidVector('is not an array of numbers');
  return Float32Array.from(value);
}

function invalidVector(what: string): Error {
  return new Error(`a vector ${what}`);
}

/** More strings, arrays and objects than the item of a vector has, or the rest of the response. */
const MEMBERS_PER_ITEM = 64;

/** The vectors of a response, in the order of the inputs. */
export interface VectorList {
  /** All vectors, one after another. */
  numbers: Float32Array<ArrayBuffer>;
  /** Length of a vector. */
  dimensions: number;
  /** Null if the replica does not report them. */
  promptTokens: number | null;
}

/**
 * Reads the body of a replica's response. `count`: number of inputs. Throws an `Error` unless it has a vector for each
 * input, all of the same length.
 */
export function readVectors(body: Uint8Array, count: number): VectorList {
  // Counted first: to parse millions of objects would take many seconds.
  const bounds = { values: Infinity, notNumbers: MEMBERS_PER_ITEM * (count + 1) };
  const exceeded = new JsonBudget(bounds).exceededBy(body);
  if (exceeded !== null) throw new Error(`the response ${exceeded}`);
  const { data, usage } = parseJsonObject(Buffer.from(body).toString());
  const items = asList(data).map(jsonObject);
  if (items.length !== count) throw new Error(`the response has ${items.length} vectors for ${count} inputs`);
  const first = readVector(items[0]?.['embedding']);
  const numbers = new Float32Array(count * first.length);
  const found = new Set<number>();
  for (const [position, { index = position, embedding }] of items.entries()) {
    if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= count)
      throw new Error(`the index of a vector is not a whole number below ${count}`);
    const vector = position === 0 ? first : readVector(embedding);
    if (vector.length !== first.length)
      throw new Error(`the response has vectors of ${first.length} and of ${vector.length} numbers`);
    numbers.set(vector, index * first.length);
    found.add(index);
  }
  if (found.size !== count) throw new Error('two vectors of the response have the same index');
  return { numbers, dimensions: first.length, promptTokens: readPromptTokens(jsonObject(usage)) };
}

/** Reads the prompt tokens of a usage. Some servers report only the total. */
export function readPromptTokens(usage: JsonObject): number | null {
  return readCount(usage['prompt_tokens']) ?? readCount(usage['total_tokens']);
}
