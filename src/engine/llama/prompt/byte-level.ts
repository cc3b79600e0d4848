/** Returns the bytes of a byte-level token. A character that is not the sign of a byte becomes a question mark. */
export function decodeByteLevel(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => BYTE_OF.get(character) ?? 0x3f);
}

/** GPT-2's byte encoding: printable Latin-1 bytes map to themselves, the others to U+0100 and above. */
const BYTE_OF: ReadonlyMap<string, number> = (() => {
  const map = new Map<string, number>();
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    map.set(String.fromCodePoint(printable ? byte : next++), byte);
  }
  return map;
})();
