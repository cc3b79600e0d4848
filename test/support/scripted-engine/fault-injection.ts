import type { ServerResponse } from 'node:http';
import type { GenerationRequest } from '../../../src/core/generation.ts';
import { parseDirective, type Directive } from './directive.ts';

/**
 * Injects the faults that engine events cannot express: a status, invalid JSON, a closed connection, a stream that ends
 * early, missing usage. Used as `beforeResponse` of `serveEngine`.
 */
export function injectFaults(request: GenerationRequest, response: ServerResponse): void {
  const directive = readDirective(request);
  if (directive?.status !== undefined) {
    response.writeHead(directive.status, { 'Content-Type': 'application/json' }).end(directive.body ?? '');
  } else if (directive) {
    injectFrameFaults(directive, response, request.continuation?.tokenIds.length ?? 0);
  }
}

/** Returns null for an invalid directive, which the engine refuses. */
function readDirective(request: GenerationRequest): Directive | null {
  try {
    return parseDirective(request);
  } catch {
    return null;
  }
}

/** `earlierFrames`: number of frames in the response that this one continues. */
function injectFrameFaults(directive: Directive, response: ServerResponse, earlierFrames: number): void {
  const { garbageAfter, cutAfter, endAfter } = directive;
  if (garbageAfter === undefined && cutAfter === undefined && endAfter === undefined) return;
  const write = response.write.bind(response);
  const end = response.end.bind(response);
  let frames = earlierFrames;

  /** Writes the changed frames. Returns whether the response has ended. */
  const send = (text: string): boolean => {
    let out = '';
    for (const frame of text.split('\n')) {
      if (frame === '') continue;
      if (frames === cutAfter) {
        write(out, () => response.destroy());
        return true;
      }
      if (frames === endAfter) {
        end(out);
        return true;
      }
      if (frames === garbageAfter) out += '{"type":\n';
      out += `${frame}\n`;
      frames++;
    }
    if (out !== '') write(out);
    return false;
  };

  let ended = false;
  // The server calls only the overloads with one string.
  response.write = ((text: string) => {
    ended ||= send(text);
    return true;
  }) as typeof response.write;
  response.end = ((text: string) => {
    if (!ended && !send(text)) end();
    ended = true;
    return response;
  }) as typeof response.end;
}
