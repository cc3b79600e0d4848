import { deflateSync, crc32 } from 'node:zlib';

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const chunk = Buffer.alloc(body.length + 8);
  chunk.writeUInt32BE(data.length, 0);
  body.copy(chunk, 4);
  chunk.writeUInt32BE(crc32(body), body.length + 4);
  return chunk;
}

/** Returns a black PNG image. `declared`: the size that its header claims. `noise`: bytes that are no pixels. */
export function png(
  width = 1,
  height = 1,
  declared: readonly [number, number] = [width, height],
  noise = 0,
): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(declared[0], 0);
  header.writeUInt32BE(declared[1], 4);
  // 8 bits of gray.
  header.writeUInt8(8, 8);
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    ...(noise > 0 ? [chunk('noIs', Buffer.alloc(noise, 'noise '))] : []),
    chunk('IDAT', deflateSync(Buffer.alloc((width + 1) * height))),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

export function dataUri(bytes: Buffer, type = 'image/png'): string {
  return `data:${type};base64,${bytes.toString('base64')}`;
}

/** The smallest image. */
export const PIXEL = dataUri(png());

/** Returns the beginning of a GIF image: its screen, a comment, and the first image, larger than the screen if asked. */
export function gif(width = 3, height = 2, screen: readonly [number, number] = [width, height]): Buffer {
  const start = Buffer.from(
    'GIF89a\0\0\0\0\x80\0\0\0\0\0\xff\xff\xff\x21\xfe\x02hi\0\x2c\0\0\0\0\0\0\0\0\0',
    'latin1',
  );
  start.writeUInt16LE(screen[0], 6);
  start.writeUInt16LE(screen[1], 8);
  start.writeUInt16LE(width, 30);
  start.writeUInt16LE(height, 32);
  return start;
}

/** Returns the beginning of a JPEG image, with segments of `before` bytes, and fill bytes, before the frame. */
export function jpeg(width = 3, height = 2, before = 16, segments = 1): Buffer {
  const segment = Buffer.alloc(before + 4);
  segment.writeUInt16BE(0xffe1, 0);
  segment.writeUInt16BE(before + 2, 2);
  const frame = Buffer.from([0xff, 0xff, 0xff, 0xc2, 0, 11, 8, 0, 0, 0, 0, 1, 1, 0x11, 0]);
  frame.writeUInt16BE(height, 7);
  frame.writeUInt16BE(width, 9);
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    ...Array.from({ length: segments }, () => segment),
    frame,
  ]);
}

/** Returns the beginning of a WebP image, by the type of its first chunk. */
export function webp(type: 'VP8 ' | 'VP8L' | 'VP8X', width = 3, height = 2): Buffer {
  const bytes = Buffer.alloc(30);
  bytes.write('RIFF\0\0\0\0WEBP', 0, 'latin1');
  bytes.write(type, 12, 'latin1');
  switch (type) {
    case 'VP8 ':
      bytes.write('\x9d\x01\x2a', 23, 'latin1');
      bytes.writeUInt16LE(width, 26);
      bytes.writeUInt16LE(height, 28);
      break;
    case 'VP8L':
      bytes.writeUInt8(0x2f, 20);
      bytes.writeUInt32LE((width - 1) | ((height - 1) << 14), 21);
      break;
    case 'VP8X':
      bytes.writeUIntLE(width - 1, 24, 3);
      bytes.writeUIntLE(height - 1, 27, 3);
  }
  return bytes;
}
