import type { IncomingMessage } from 'node:http';
import { MESSAGES } from '../protocols/anthropic/protocol.ts';
import { EMBEDDINGS } from '../protocols/openai/embeddings.ts';
import { RERANK } from '../protocols/openai/rerank.ts';
import { CHAT, TEXT } from '../protocols/openai/protocols.ts';
import type { Protocol } from '../core/protocol.ts';
import { RESPONSES } from '../protocols/responses/protocol.ts';

/** The protocols that callers can use. */
export const PROTOCOLS: readonly Protocol[] = [CHAT, TEXT, EMBEDDINGS, RERANK, RESPONSES, MESSAGES];

/** Returns the paths of a protocol. */
export function pathsOf({ path, otherPath }: Protocol): readonly string[] {
  return otherPath === undefined ? [path] : [path, otherPath];
}

/** By the usual spellings of their paths. */
const BY_PATH: ReadonlyMap<string, Protocol> = new Map(
  PROTOCOLS.flatMap((protocol) =>
    pathsOf(protocol).flatMap((path): [string, Protocol][] => [
      [path, protocol],
      [`${path}/`, protocol],
    ]),
  ),
);

/**
 * Returns the protocol of a request for a generation. Undefined for other endpoints and for unusual spellings of the
 * path, such as with percent-encoded letters, which Fastify's router recognizes.
 */
export function protocolOf({ method, url = '' }: IncomingMessage): Protocol | undefined {
  if (method !== 'POST') return undefined;
  const query = url.indexOf('?');
  return BY_PATH.get(query === -1 ? url : url.slice(0, query));
}

/** Returns the protocol in whose form a request gets its headers and errors; undefined: OpenAI's. */
export function languageOf(request: IncomingMessage): Protocol | undefined {
  return protocolOf(request) ?? (isForAnthropic(request) ? MESSAGES : undefined);
}

/** Whether a request is one of Anthropic's API, which has the path of its models in common with OpenAI's. */
export function isForAnthropic({ url = '', headers }: IncomingMessage): boolean {
  if (MESSAGES_PATHS.test(url)) return true;
  return headers['anthropic-version'] !== undefined && MODELS_PATHS.test(url);
}

const MESSAGES_PATHS = /^\/v1\/messages(?![^/?])/;
const MODELS_PATHS = /^\/v1\/models(?![^/?])/;
