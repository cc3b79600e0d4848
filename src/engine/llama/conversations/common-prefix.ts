/** Returns the length of the common prefix of `prompt` and the first `length` of `tokens`. */
export function commonPrefix(tokens: Uint32Array, length: number, prompt: Uint32Array): number {
  const end = Math.min(length, prompt.length);
  let i = 0;
  while (i < end && tokens[i] === prompt[i]) i++;
  return i;
}
