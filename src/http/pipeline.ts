import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Maximum unanswered requests of a connection. Clients that do not pipeline, which is almost all, have one. */
const MAX_UNANSWERED = 16;

/**
 * Returns a function that wraps listeners for requests and bounds the unanswered requests of each connection. HTTP/1.1
 * allows clients to send requests without waiting for responses (pipelining), and each of them occupies memory until its
 * response is sent. A connection that exceeds the bound is not read any further. It is closed after the responses to
 * the first requests, so that the client sends the others again (RFC 9112, section 9.3.2).
 */
export function pipelineBound(): (serve: RequestListener) => RequestListener {
  const pipelines = new WeakMap<Socket, Pipeline>();
  return (serve) => (request, response) => {
    let pipeline = pipelines.get(request.socket);
    if (pipeline === undefined) pipelines.set(request.socket, (pipeline = new Pipeline()));
    if (pipeline.admit(request, response)) serve(request, response);
  };
}

class Pipeline {
  #unanswered = 0;
  /** The response to the last request that is served. */
  #last: ServerResponse | null = null;
  #exceeded = false;

  /** Whether to serve the request. */
  admit({ socket }: IncomingMessage, response: ServerResponse): boolean {
    // Requests that the client had already sent are parsed even after the connection is paused.
    if (this.#exceeded) return false;
    if (this.#unanswered === MAX_UNANSWERED) {
      this.#exceeded = true;
      socket.pause();
      // Tells the client that no further responses follow, and closes the connection after this one.
      if (this.#last !== null) this.#last.shouldKeepAlive = false;
      return false;
    }
    this.#unanswered += 1;
    this.#last = response;
    response.on('close', () => {
      this.#unanswered -= 1;
      // In case the last response had begun when the bound was exceeded.
      if (this.#exceeded && this.#unanswered === 0) socket.destroySoon();
    });
    return true;
  }
}
