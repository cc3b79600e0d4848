import type { TemplateSegment } from './template-markers.ts';

/** Match the tokens that untrusted text must not form. Null if there are none. */
export interface ReservedTokens {
  controls: RegExp | null;
  /** The user-defined tokens that contain a delimiter and occur in the chat template, such as `<tool_call>`. */
  userDefined: RegExp | null;
}

/** The text of a prompt, and the parts of it that are tokenized separately. */
export interface PromptText {
  text: string;
  /** Where each part ends, in UTF-16 code units. No part is empty. */
  ends: Uint32Array;
  /** For each part, 1 if the texts of control tokens become these tokens, otherwise 0. */
  special: Uint8Array;
}

/** Text prompts may contain special tokens, as with other engines. */
export function trustedText(text: string): PromptText {
  return joined([{ text, special: true }]);
}

/** Returns the text of a rendered prompt. Special tokens are recognized only in its trusted segments. */
export function promptText(segments: readonly TemplateSegment[], reserved: ReservedTokens): PromptText {
  const text = segments.map((segment) => segment.text).join('');
  // If no token is forged, tokenize the whole text at once. Tokens can then span segments, as they do in training.
  const isForged = [reserved.controls, reserved.userDefined].some(
    (pattern) => pattern !== null && hasUntrusted(pattern, text, segments),
  );
  if (!isForged) return trustedText(text);
  const parts = segments.flatMap(({ text: part, trusted }): TextPart[] => {
    if (trusted) return [{ text: part, special: true }];
    return plainParts(part, reserved.userDefined).map((plain) => ({ text: plain, special: false }));
  });
  return joined(parts);
}

interface TextPart {
  text: string;
  special: boolean;
}

function joined(parts: readonly TextPart[]): PromptText {
  const filled = parts.filter(({ text }) => text !== '');
  let end = 0;
  return {
    text: filled.map(({ text }) => text).join(''),
    ends: Uint32Array.from(filled, ({ text }) => (end += text.length)),
    special: Uint8Array.from(filled, ({ special }) => Number(special)),
  };
}

/**
 * Cuts an untrusted text after the first character of each reserved token, because llama.cpp recognizes user-defined
 * tokens in every text.
 */
function plainParts(text: string, reserved: RegExp | null): string[] {
  if (reserved === null) return [text];
  const parts: string[] = [];
  let from = 0;
  for (const { index } of text.matchAll(reserved)) {
    const to = index + String.fromCodePoint(text.codePointAt(index) ?? 0).length;
    parts.push(text.slice(from, to));
    from = to;
  }
  return [...parts, text.slice(from)];
}

/** Whether the pattern matches outside trusted segments. */
function hasUntrusted(pattern: RegExp, whole: string, segments: readonly TemplateSegment[]): boolean {
  let offset = 0;
  const trustedOffsets: number[] = [];
  for (const { text, trusted } of segments) {
    if (trusted) for (const match of text.matchAll(pattern)) trustedOffsets.push(offset + match.index);
    offset += text.length;
  }
  const found = Array.from(whole.matchAll(pattern), (match) => match.index);
  return found.length !== trustedOffsets.length || found.some((at, i) => at !== trustedOffsets[i]);
}
