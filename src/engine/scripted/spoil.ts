import type { ServerResponse } from 'node:http';
import type { GenerationRequest } from '../../generation.ts';
import { directiveOf, type Directive } from './options.ts';

/**
 * Brings the faults into an answer that lie below an engine's events: a status of its own, bytes that are no
 * JSON, a connection cut, a stream ended early, no usage. For `serveEngine`'s `beforeAnswer`.
 */
export function spoil(request: GenerationRequest, response: ServerResponse): void {
  const directive = tryRead(request);
  if (directive?.status !== undefined) {
    response.writeHead(directive.status, { 'Content-Type': 'application/json' }).end(directive.body ?? '');
  } else if (directive && request.stream) {
    spoilFrames(directive, response);
  }
}

/** Null when it cannot be read: the engine says so, with a proper status. */
function tryRead(request: GenerationRequest): Directive | null {
  try {
    return directiveOf(request);
  } catch {
    return null;
  }
}

function spoilFrames(directive: Directive, response: ServerResponse): void {
  const { garbageAfter, cutAfter, endAfter, noUsage } = directive;
  if (garbageAfter === undefined && cutAfter === undefined && endAfter === undefined && !noUsage) return;
  const write = response.write.bind(response);
  const end = response.end.bind(response);
  let frames = 0;

  /** Sends the frames on, changed; true when the answer is over. */
  const send = (text: string): boolean => {
    let out = '';
    for (const frame of text.split('\n\n')) {
      if (frame === '') continue;
      if (frames === cutAfter) {
        write(out, () => response.destroy());
        return true;
      }
      if (frames === endAfter) {
        end(out);
        return true;
      }
      if (frames === garbageAfter) out += 'data: {"choices":[{"delta":\n\n';
      out += `${noUsage ? withoutUsage(frame) : frame}\n\n`;
      frames++;
    }
    if (out !== '') write(out);
    return false;
  };

  let over = false;
  // The server calls these two with one string, of the overloads there are.
  response.write = ((text: string) => {
    over ||= send(text);
    return true;
  }) as typeof response.write;
  response.end = ((text: string) => {
    if (!over && !send(text)) end();
    over = true;
    return response;
  }) as typeof response.end;
}

function withoutUsage(frame: string): string {
  const json = frame.slice('data: '.length);
  if (!json.startsWith('{')) return frame;
  // A chunk of our own formatter.
  const chunk = JSON.parse(json) as Record<string, unknown>;
  delete chunk['usage'];
  return `data: ${JSON.stringify(chunk)}`;
}
