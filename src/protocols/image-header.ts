import type { ImageFile } from '../core/generation.ts';

/** What the first bytes of an image file say. */
export type ImageHeader = Pick<ImageFile, 'format' | 'width' | 'height'>;

/**
 * Reads the header of an image from the first bytes of its file. Null: it is no PNG, JPEG, GIF or WebP image, or these bytes
 * do not contain its dimensions.
 */
export function readImageHeader(bytes: Buffer): ImageHeader | null {
  try {
    return readPng(bytes) ?? readJpeg(bytes) ?? readGif(bytes) ?? readWebp(bytes);
  } catch (error) {
    // The header ends early.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function hasText(bytes: Buffer, text: string, at: number): boolean {
  return bytes.toString('latin1', at, at + text.length) === text;
}

function readPng(bytes: Buffer): ImageHeader | null {
  if (!hasText(bytes, '\x89PNG\r\n\x1a\n', 0) || !hasText(bytes, 'IHDR', 12)) return null;
  return { format: 'png', width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
}

/** Looks for the header of the frame, which can come after other segments, such as a thumbnail. */
function readJpeg(bytes: Buffer): ImageHeader | null {
  if (!hasText(bytes, '\xff\xd8\xff', 0)) return null;
  for (let at = 2, left = MAX_SEGMENTS; left > 0; left--) {
    // Decoders skip what is no marker, and bytes 0xff before one.
    at = bytes.indexOf(0xff, at);
    if (at === -1) return null;
    const marker = bytes.readUInt8(at + 1);
    if (marker === 0xff || marker === 0x00) at++;
    else if (FRAMES.has(marker))
      return { format: 'jpeg', width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) };
    else if (isSegment(marker)) at += 2 + Math.max(2, bytes.readUInt16BE(at + 2));
    // The pixels, or a marker that decoders do not agree on: some would find another frame.
    else return null;
  }
  return null;
}

/** More segments or blocks than an image has before its header. Reading millions of them would hold the event loop. */
const MAX_SEGMENTS = 4096;

/** The markers of a frame: 0xc0 to 0xcf, except those of tables, and 0xc8. */
const FRAMES: ReadonlySet<number> = new Set([
  0xc0, 0xc1, 0xc2, 0xc3, 0xc5, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcd, 0xce, 0xcf,
]);
/** Whether a marker begins a segment that all decoders skip by its length: of tables, metadata or a comment. */
function isSegment(marker: number): boolean {
  return TABLES.has(marker) || (marker >= 0xe0 && marker <= 0xef) || marker === 0xfe;
}

/** The markers of tables. */
const TABLES: ReadonlySet<number> = new Set([0xc4, 0xcc, 0xdb, 0xdd]);

/** Decoders enlarge the screen of a GIF if its first image is larger. */
function readGif(bytes: Buffer): ImageHeader | null {
  if (!hasText(bytes, 'GIF87a', 0) && !hasText(bytes, 'GIF89a', 0)) return null;
  const flags = bytes.readUInt8(10);
  let at = 13 + ((flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1));
  let left = MAX_SEGMENTS;
  for (; left > 0 && bytes.readUInt8(at) === EXTENSION; left--) {
    for (at += 2; left > 0 && bytes.readUInt8(at) > 0; left--) at += 1 + bytes.readUInt8(at);
    at++;
  }
  if (left <= 0 || bytes.readUInt8(at) !== DESCRIPTOR) return null;
  const right = bytes.readUInt16LE(at + 1) + bytes.readUInt16LE(at + 5);
  const bottom = bytes.readUInt16LE(at + 3) + bytes.readUInt16LE(at + 7);
  return {
    format: 'gif',
    width: Math.max(bytes.readUInt16LE(6), right),
    height: Math.max(bytes.readUInt16LE(8), bottom),
  };
}

/** The first bytes of blocks of a GIF. */
const EXTENSION = 0x21;
const DESCRIPTOR = 0x2c;

function readWebp(bytes: Buffer): ImageHeader | null {
  if (!hasText(bytes, 'RIFF', 0) || !hasText(bytes, 'WEBP', 8)) return null;
  const format = 'webp';
  switch (bytes.toString('latin1', 12, 16)) {
    // With losses.
    case 'VP8 ':
      if (!hasText(bytes, '\x9d\x01\x2a', 23)) return null;
      return {
        format,
        width: bytes.readUInt16LE(26) & 0x3fff,
        height: bytes.readUInt16LE(28) & 0x3fff,
      };
    // Without losses: 14 bits each.
    case 'VP8L': {
      if (bytes.readUInt8(20) !== 0x2f) return null;
      const bits = bytes.readUInt32LE(21);
      return { format, width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    // With transparency, animation or metadata.
    case 'VP8X':
      return { format, width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
    default:
      return null;
  }
}
