import type { Tool } from '../../../../src/core/generation.ts';
import {
  OutputParser,
  type OutputParserOptions,
} from '../../../../src/engine/llama/tool-calls/output-parser.ts';
import type { OutputPart } from '../../../../src/engine/llama/tool-calls/call-writer.ts';

/** The parts of an output. Arguments are the JSON text of each call. */
export interface Output {
  text: string;
  reasoning: string;
  calls: { name: string; arguments: string }[];
}

/** Parses an output in these pieces. */
export function parse(pieces: Iterable<string>, options: Partial<OutputParserOptions> = {}): Output {
  const parser = createParser(options);
  const parts: OutputPart[] = [];
  for (const piece of pieces) parts.push(...parser.push(piece));
  parts.push(...parser.flush());
  return join(parts);
}

/** Creates a parser, by default with a tool `f`. */
export function createParser(options: Partial<OutputParserOptions> = {}): OutputParser {
  return new OutputParser({
    format: null,
    reasoning: null,
    insideReasoning: false,
    tools: [tool('f')],
    ...options,
  });
}

export function join(parts: readonly OutputPart[]): Output {
  const output: Output = { text: '', reasoning: '', calls: [] };
  for (const part of parts) {
    if (part.type === 'call') {
      output.calls.push({ name: part.name, arguments: '' });
    } else if (part.type === 'arguments') {
      const call = output.calls.at(-1);
      if (call === undefined) throw new Error('arguments before the first call');
      call.arguments += part.text;
    } else {
      output[part.type] += part.text;
    }
  }
  return output;
}

/** Splits a text into pieces of these lengths, repeatedly. */
export function split(text: string, lengths: readonly number[]): string[] {
  const pieces: string[] = [];
  for (let at = 0, index = 0; at < text.length; index += 1) {
    const length = lengths[index % lengths.length] ?? 1;
    pieces.push(text.slice(at, at + length));
    at += length;
  }
  return pieces;
}

export function tool(name: string, properties: Tool['parameters'] = {}, strict = false): Tool {
  return { name, description: null, parameters: { type: 'object', properties }, strict };
}
