import type { ServerResponse } from 'node:http';
import type { GenerationRequest } from '../../generation.ts';
import { EVENT_FRAMES } from '../event-frame.ts';
import { parseDirective, type Directive } from './options.ts';

/**
 * Injects the faults that engine events cannot express: a status, invalid JSON, a closed connection, a stream that ends
 * early, missing usage. Used as `beforeResponse` of `serveEngine`.
 */
export function injectFaults(request: GenerationRequest, response: ServerResponse): void {
  const directive = readDirective(request);
  if (directive?.status !== undefined) {
    response.writeHead(directive.status, { 'Content-Type': 'application/json' }).end(directive.body ?? '');
  } else if (directive && request.stream) {
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
  const { garbageAfter, cutAfter, endAfter, noUsage } = directive;
  if (garbageAfter === undefined && cutAfter === undefined && endAfter === undefined && !noUsage) return;
  const write = response.write.bind(response);
  const end = response.end.bind(response);
  const wire = response.req.headers.accept === EVENT_FRAMES ? JSON_LINES : SERVER_SENT_EVENTS;
  let frames = earlierFrames;

  /** Writes the changed frames. Returns whether the response has ended. */
  const send = (text: string): boolean => {
    let out = '';
    for (const frame of text.split(wire.separator)) {
      if (frame === '') continue;
      if (frames === cutAfter) {
        write(out, () => response.destroy());
        return true;
      }
      if (frames === endAfter) {
        end(out);
        return true;
      }
      if (frames === garbageAfter) out += wire.garbage + wire.separator;
      out += (noUsage ? wire.withoutUsage(frame) : frame) + wire.separator;
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

/** How a response separates its events. */
interface Wire {
  separator: string;
  garbage: string;
  withoutUsage(frame: string): string;
}

const SERVER_SENT_EVENTS: Wire = { separator: '\n\n', garbage: 'data: {"choices":[{"delta":', withoutUsage };

/** Event frames always have usage. */
const JSON_LINES: Wire = { separator: '\n', garbage: '{"type":', withoutUsage: (frame) => frame };

function withoutUsage(frame: string): string {
  const json = frame.slice('data: '.length);
  if (!json.startsWith('{')) return frame;
  const chunk = JSON.parse(json) as Record<string, unknown>;
  delete chunk['usage'];
  return `data: ${JSON.stringify(chunk)}`;
}
