/** The memory that JSON takes on V8's heap, which is often much smaller than the memory of the machine. */

/** Maximum for a character: V8 stores a string in two bytes per character if any of them is not in Latin-1. */
export const CHARACTER_BYTES = 2;

/** About what a string takes in addition to its characters, and an array or object in addition to its values. */
export const HEADER_BYTES = 64;

/** Of a number, or of the reference to another value. */
export const SLOT_BYTES = 8;

const BEYOND_LATIN_1 = /[^\0-\xff]/;

/** Returns about how many bytes a parsed value takes. */
export function heapBytes(value: unknown): number {
  if (typeof value === 'string') return SLOT_BYTES + stringBytes(value);
  if (typeof value !== 'object' || value === null) return SLOT_BYTES;
  let bytes = SLOT_BYTES + HEADER_BYTES;
  if (Array.isArray(value)) {
    for (const item of value) bytes += heapBytes(item);
  } else {
    for (const [name, member] of Object.entries(value)) bytes += stringBytes(name) + heapBytes(member);
  }
  return bytes;
}

function stringBytes(text: string): number {
  return HEADER_BYTES + text.length * (BEYOND_LATIN_1.test(text) ? CHARACTER_BYTES : 1);
}
