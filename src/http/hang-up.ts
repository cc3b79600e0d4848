import type { ServerResponse } from 'node:http';

/** The caller closed the connection before its answer was whole: a reason for aborting, never an answer. */
export class HungUp extends Error {
  constructor(message = 'the caller hung up') {
    super(message);
    this.name = 'HungUp';
  }
}

/** Aborts `stop` when the connection closes before the answer has been written whole. */
export function abortOnHangUp(response: ServerResponse, stop: AbortController): void {
  response.once('close', () => {
    if (!response.writableFinished && !stop.signal.aborted) stop.abort(new HungUp());
  });
}
