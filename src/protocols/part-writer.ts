import type { ServiceError } from '../core/errors.ts';
import type { GenerationEvent, TextEvent, Usage } from '../core/generation.ts';
import type { ResponseStream, WholeResponse } from '../core/protocol.ts';
import { CHARACTER_BYTES } from '../json/json-heap.ts';

/** A part of a response: an item or a content block. It is written in pieces. */
export interface ResponsePart<Json> {
  /** Emits the first events. */
  begin(): void;
  add(text: string): void;
  /** Emits the last events. Returns the part. `incomplete`: it is cut off. */
  end(status: 'completed' | 'incomplete'): Json;
}

/** Sends frames of a stream. */
export type Send = (frames: string) => void;

export type EventOf<T extends GenerationEvent['type']> = Extract<GenerationEvent, { type: T }>;

/** Writes a response, or its stream, in which text, reasoning and calls are parts one after another. */
export abstract class PartWriter<Json, Part extends ResponsePart<Json>>
  implements WholeResponse, ResponseStream
{
  /** The last event of a stream is written for the event `end`. */
  readonly end = '';
  heldBytes = 0;
  /** The parts that ended. */
  protected readonly parts: Json[] = [];
  protected open: Part | null = null;
  /** Null: the response is not a stream. */
  protected readonly send: Send | null;
  #frames = '';
  /** The last call. */
  #call: Part | null = null;

  constructor(isStream: boolean) {
    this.send = isStream ? (frames) => void (this.#frames += frames) : null;
  }

  abstract body(): string;
  abstract keepAlive(): string;
  abstract error(error: ServiceError, usage: Usage): string;

  protected abstract start(event: EventOf<'started'>): void;
  protected abstract finish(event: EventOf<'finish'>): void;
  protected abstract complete(usage: Usage): void;
  /** Returns the open part, or a new one if it has no text. */
  protected abstract textPart(): Part;
  /** Returns the open part, or a new one if it has no reasoning. */
  protected abstract reasoningPart(): Part;
  /** Begins the part of a call. */
  protected abstract callPart(id: string, name: string): Part;

  format(event: GenerationEvent): string {
    this.add(event);
    return this.takeFrames();
  }

  add(event: GenerationEvent): void {
    switch (event.type) {
      case 'started':
        this.start(event);
        break;
      case 'token':
        this.addText(event);
        break;
      case 'reasoning':
        if (event.text !== '') this.addTo(this.reasoningPart(), event.text);
        break;
      case 'tool-call':
        this.#call = this.callPart(event.id, event.name);
        break;
      case 'tool-arguments':
        if (this.#call !== null && this.#call === this.open) this.addTo(this.#call, event.text);
        break;
      case 'finish':
        this.finish(event);
        break;
      case 'end':
        this.complete(event.usage);
        break;
      case 'embedding':
      case 'score':
    }
  }

  protected addText({ text }: TextEvent): void {
    if (text !== '') this.addTo(this.textPart(), text);
  }

  protected addTo(part: Part, text: string): void {
    this.heldBytes += CHARACTER_BYTES * text.length;
    part.add(text);
  }

  /** Ends the open part and begins the next one. */
  protected begin<P extends Part>(create: (index: number) => P): P {
    this.endPart('completed');
    const part = create(this.parts.length);
    this.open = part;
    part.begin();
    return part;
  }

  protected endPart(status: 'completed' | 'incomplete'): void {
    if (this.open !== null) this.parts.push(this.open.end(status));
    this.open = null;
  }

  /** Returns the frames since the last call. */
  protected takeFrames(): string {
    const frames = this.#frames;
    this.#frames = '';
    return frames;
  }
}
