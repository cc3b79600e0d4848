import { Environment, Interpreter, Template } from '@huggingface/jinja';
import { ServiceError } from '../../errors.ts';
import type { Message } from '../../generation.ts';
import { instructTypeOf } from './instruct-type.ts';
import { MarkedContents, probedLiterals, type TemplateSegment } from './template-markers.ts';

/** A chat as the model wants to read it. */
export interface RenderedPrompt {
  /**
   * Whether the template asked for the beginning-of-sequence token. Its text is not in `segments`: whoever
   * tokenizes puts exactly one before them, if this is true or if the model says so.
   */
  bos: boolean;
  /** Trusted and untrusted by turns, none empty. */
  segments: readonly TemplateSegment[];
}

/** A template that this build cannot use: it does not parse, or cannot render the plainest chat. For operators. */
export class ChatTemplateError extends Error {
  override readonly name = 'ChatTemplateError';
}

/**
 * A model's own chat template (Jinja, from `tokenizer.chat_template`), parsed once.
 *
 * What users write never passes through the template: it sees a marker in place of each content, and the output
 * is split at the markers. So no content can forge a turn of another role, whatever tokens the model has. What
 * templates do with contents still works: they may trim (white space at either end stays outside the marker) and
 * look for strings of their own (`'</think>' in content`; these stay visible between two markers). A template that
 * cuts a marker to pieces is refused rather than guessed at.
 */
export class ChatTemplate {
  /** The family of the template in the words of `architecture.instruct_type`; null where it is none that is known. */
  readonly instructType: string | null;
  readonly #template: Template;
  readonly #special: { bos: string; eos: string };
  readonly #literals: RegExp | null;
  readonly #now: () => Date;

  /**
   * `special` are the texts of the model's tokens, empty where it has none. `now` is what `strftime_now` tells.
   * Throws `ChatTemplateError` where the template does not parse, or fails on a single user message or drops it.
   */
  constructor(source: string, special: { bos: string; eos: string }, now: () => Date = () => new Date()) {
    try {
      this.#template = new Template(source);
    } catch (error) {
      throw new ChatTemplateError(`The chat template is invalid: ${reasonOf(error)}`, { cause: error });
    }
    this.instructType = instructTypeOf(source);
    this.#special = special;
    this.#literals = probedLiterals(this.#template.parsed);
    this.#now = now;
    this.#tryOut();
  }

  /**
   * The prompt for these messages, up to where the assistant's answer begins. Throws 400 `invalid_value` with param
   * `messages` where the template refuses them (such as a system message, or two users' in a row).
   */
  render(messages: readonly Message[]): RenderedPrompt {
    const contents = new MarkedContents(this.#literals);
    const marked = messages.map(({ role, content }) => ({ role, content: contents.mark(content) }));
    const output = this.#run(marked);
    const { bos } = this.#special;
    const startsWithBos = bos !== '' && output.startsWith(bos);
    const segments = contents.split(startsWithBos ? output.slice(bos.length) : output);
    if (segments === null) throw refusal('The chat template of this model cannot separate these messages.');
    return { bos: startsWithBos, segments };
  }

  #run(messages: readonly Message[]): string {
    try {
      // What a template prints is always one string.
      return new Interpreter(this.#environment(messages)).run(this.#template.parsed).value as string;
    } catch (error) {
      if (error instanceof TemplateRefusal) throw refusal(error.message);
      // The template rendered a plain chat when it was loaded, so it is these messages that it cannot take.
      throw refusal('The chat template of this model cannot render these messages.', error);
    }
  }

  /** The names that Hugging Face's own renderer gives to templates. */
  #environment(messages: readonly Message[]): Environment {
    const environment = new Environment();
    const names: Record<string, unknown> = {
      ...CONSTANTS,
      raise_exception: (message: unknown) => {
        throw new TemplateRefusal(String(message));
      },
      range: pythonRange,
      strftime_now: (format: string) => strftime(this.#now(), format),
      messages,
      bos_token: this.#special.bos,
      eos_token: this.#special.eos,
      add_generation_prompt: true,
      tools: null,
      documents: null,
    };
    for (const [name, value] of Object.entries(names)) environment.set(name, value);
    return environment;
  }

  /** Tells at load, not at the first request, that a template needs what this build does not have. */
  #tryOut(): void {
    try {
      const { segments } = this.render([{ role: 'user', content: 'Hello' }]);
      if (!segments.some(({ text, trusted }) => !trusted && text.endsWith('Hello'))) {
        throw refusal('it omits the user message');
      }
    } catch (error) {
      const cause = error instanceof ServiceError ? (error.cause ?? error) : error;
      throw new ChatTemplateError(`The chat template fails to render a simple message: ${reasonOf(cause)}`, {
        cause: error,
      });
    }
  }
}

/** `raise_exception` of a template: its author's word that these messages do not fit the model. */
class TemplateRefusal extends Error {}

/** Longest message of a template's author that is passed on, in UTF-16 code units. */
const REFUSAL_LENGTH = 300;

function refusal(message: string, cause?: unknown): ServiceError {
  return new ServiceError('invalid_value', message.slice(0, REFUSAL_LENGTH), { param: 'messages', cause });
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const CONSTANTS = { true: true, false: false, none: null, True: true, False: false, None: null };

/** Python's `range`. */
function pythonRange(first: number, second?: number, step = 1): number[] {
  const [start, end] = second === undefined ? [0, first] : [first, second];
  const numbers: number[] = [];
  if (step > 0) for (let value = start; value < end; value += step) numbers.push(value);
  if (step < 0) for (let value = start; value > end; value += step) numbers.push(value);
  return numbers;
}

/** Python's `strftime` in English, whatever the machine's language, for the directives that templates use. */
function strftime(date: Date, format: string): string {
  return format.replace(/%[a-zA-Z%]/g, (directive) => DIRECTIVES[directive]?.(date) ?? directive);
}

const DIRECTIVES: Readonly<Record<string, (date: Date) => string>> = {
  '%Y': (date) => String(date.getFullYear()),
  '%y': (date) => String(date.getFullYear() % 100).padStart(2, '0'),
  '%m': (date) => String(date.getMonth() + 1).padStart(2, '0'),
  '%d': (date) => String(date.getDate()).padStart(2, '0'),
  '%B': (date) => date.toLocaleString('en-US', { month: 'long' }),
  '%b': (date) => date.toLocaleString('en-US', { month: 'short' }),
  '%A': (date) => date.toLocaleString('en-US', { weekday: 'long' }),
  '%a': (date) => date.toLocaleString('en-US', { weekday: 'short' }),
  '%H': (date) => String(date.getHours()).padStart(2, '0'),
  '%M': (date) => String(date.getMinutes()).padStart(2, '0'),
  '%S': (date) => String(date.getSeconds()).padStart(2, '0'),
  '%%': () => '%',
};
