import type { Readable, Writable } from 'node:stream';
import { modelNamed } from '../../support/nearest.ts';
import { ChatError, type ChatClient } from './client.ts';
import type { Conversation } from './conversation.ts';
import { MessageReader } from './message-reader.ts';

interface InteractiveOptions {
  client: ChatClient;
  conversation: Conversation;
  /** The keyboard. */
  input: Readable;
  /** The screen. */
  output: Writable;
  /** Ends the chat when it is aborted. */
  signal: AbortSignal;
}

const HELP = `\
  /model [name]    show the models, or continue with another one
  /system [text]   show the system message, or set it; /system off removes it
  /new             start a new conversation with the same model and system message
  /bye             leave the chat; also Ctrl+D

Ctrl+C stops a response. Begin and end a message of several lines with """.
`;

/**
 * Reads messages and commands from a terminal until the user leaves, or the signal is aborted. Ctrl+C stops a response or
 * a command.
 */
export async function chatInteractively(options: InteractiveOptions): Promise<void> {
  const { conversation, input, output, signal } = options;
  const reader = new MessageReader(input, output);
  output.write(`${conversation.model}. Type a message, /help for help, or Ctrl+D to leave.\n`);
  while (!signal.aborted) {
    const text = await reader.read(signal);
    if (text === null) return;
    if (text === '') continue;
    const [, name, argument = ''] = /^\/([a-z?]+)(?:\s+(.*))?$/s.exec(text) ?? [];
    const stop = new AbortController();
    const onInterrupt = (): void => stop.abort();
    process.on('SIGINT', onInterrupt);
    const stopped = AbortSignal.any([signal, stop.signal]);
    try {
      if (name === undefined) await reader.hideTyping(() => conversation.send(text, stopped), onInterrupt);
      else if (await runCommand(name, argument.trim(), options, stopped)) return;
    } catch (error) {
      if (stopped.aborted) continue;
      if (!(error instanceof ChatError)) throw error;
      output.write(`${error.message}\n`);
      if (error.code === 'context_length_exceeded') output.write('Start a new conversation with /new.\n');
    } finally {
      process.off('SIGINT', onInterrupt);
    }
  }
}

/** Returns whether to leave the chat. */
async function runCommand(
  name: string,
  argument: string,
  { client, conversation, output }: InteractiveOptions,
  signal: AbortSignal,
): Promise<boolean> {
  switch (name) {
    case 'help':
    case '?':
      output.write(HELP);
      return false;
    case 'bye':
    case 'exit':
    case 'quit':
      return true;
    case 'new':
    case 'clear':
      conversation.clear();
      output.write('New conversation.\n');
      return false;
    case 'system':
      if (argument !== '') conversation.system = argument === 'off' ? null : argument;
      output.write(`System message: ${conversation.system ?? 'none'}\n`);
      return false;
    case 'model': {
      const models = await client.models(signal);
      const model = argument === '' ? null : modelNamed(argument, models);
      if (argument === '')
        for (const id of models) output.write(`${id === conversation.model ? '*' : ' '} ${id}\n`);
      else if (model === null)
        output.write(`The service has no model ${argument}. /model shows the models that it has.\n`);
      else {
        conversation.model = model;
        output.write(`The next message goes to ${model}.\n`);
      }
      return false;
    }
    default:
      output.write(`Unknown command: /${name}. Type /help for help.\n`);
      return false;
  }
}
