import type { ServiceError } from '../core/errors.ts';
import type { ClientDisconnected } from '../inference/complete.ts';
import type { GenerationRecord } from '../inference/record.ts';

/** Receives the response of one generation: a stream, a JSON body or an error. */
export interface GenerationOutput {
  /** Begins the stream of the generation with this record. `keepAlive` returns frames for when there are no others. */
  openStream(record: GenerationRecord, keepAlive: () => string): FrameOutput;
  /** Sends a whole response, which may be in parts. */
  sendJson(body: string | readonly Buffer[]): void;
  /** Ends the response with an error. */
  fail(error: ServiceError | ClientDisconnected): void;
}

/** Receives the frames of a stream. */
export interface FrameOutput extends Disposable {
  /** Whether the status has been sent, so that errors can only be sent as frames. */
  readonly opened: boolean;
  /** Writes complete frames. Returns a promise that must be awaited before the next write if the buffer is full. */
  write(frames: string): Promise<void> | null;
  /** Writes the last frames and ends the response. */
  end(frames: string): void;
}
