import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { readImageHeader } from '../../src/protocols/image-header.ts';
import { gif, jpeg, png, webp } from './samples.ts';

const SAMPLES = {
  png: [png(3, 2)],
  jpeg: [
    jpeg(),
    jpeg(3, 2, 65_533),
    Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0, 1]), jpeg().subarray(2)]),
  ],
  gif: [gif(), gif(3, 2, [1, 1])],
  webp: [webp('VP8 '), webp('VP8L'), webp('VP8X')],
};

test('the format and the size of an image are read from its header', () => {
  for (const [format, samples] of Object.entries(SAMPLES))
    for (const sample of samples) assert.deepEqual(readImageHeader(sample), { format, width: 3, height: 2 });
  assert.deepEqual(readImageHeader(webp('VP8X', 16_777_216, 16_777_216)), {
    format: 'webp',
    width: 16_777_216,
    height: 16_777_216,
  });
  assert.deepEqual(readImageHeader(png(1, 1, [0xffff_ffff, 1])), {
    format: 'png',
    width: 0xffff_ffff,
    height: 1,
  });
});

test('a header that ends early is none', () => {
  for (const sample of [
    png(3, 2).subarray(0, 24),
    jpeg(),
    gif(),
    webp('VP8 '),
    webp('VP8L').subarray(0, 25),
  ]) {
    const complete = sample.lastIndexOf(sample.at(-1) ?? 0) + 1;
    for (let length = 0; length < Math.min(complete, sample.length) - 8; length++)
      assert.equal(readImageHeader(sample.subarray(0, length)), null, `${length} bytes`);
  }
});

test('a JPEG image without a frame, and bytes that are no image, have no header', () => {
  const scan = Buffer.from([0xff, 0xd8, 0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0]);
  for (const bytes of [
    scan,
    Buffer.from('%PDF-1.7'),
    Buffer.from('<svg xmlns="…" width="1"/>'),
    Buffer.alloc(64),
  ])
    assert.equal(readImageHeader(bytes), null);
});

test('the header of a JPEG image is not read behind a marker that decoders skip in different ways', () => {
  // Some decoders read the frame in the first segment, of 65,535 x 65,535 pixels, and others the frame after it.
  const frame = Buffer.from([0xff, 0xc0, 0, 11, 8, 0xff, 0xff, 0xff, 0xff, 1, 1, 0x11, 0]);
  for (const marker of [0x01, 0x02, 0xc8, 0xd0, 0xd7, 0xd8, 0xd9, 0xdc, 0xde, 0xf0, 0xfd]) {
    const start = Buffer.from([0xff, 0xd8, 0xff, marker]);
    const bytes = Buffer.concat([start, frame, Buffer.alloc(70_000), jpeg().subarray(2)]);
    assert.equal(readImageHeader(bytes), null, marker.toString(16));
  }
});

test('thousands of segments or blocks before the header are not read', () => {
  /** Returns a GIF image with extensions of one empty block, or one extension of blocks of one byte. */
  const extended = (extensions: number, blocks: number) =>
    Buffer.concat([
      gif().subarray(0, 19),
      Buffer.alloc(3 * extensions, Buffer.from([0x21, 0xfe, 0])),
      Buffer.from([0x21, 0xfe]),
      Buffer.alloc(2 * blocks, Buffer.from([1, 0])),
      Buffer.from([0]),
      gif().subarray(25),
    ]);
  const size = { width: 3, height: 2 };
  assert.deepEqual(readImageHeader(jpeg(3, 2, 0, 4000)), { format: 'jpeg', ...size });
  assert.deepEqual(readImageHeader(extended(2000, 2000)), { format: 'gif', ...size });
  for (const image of [jpeg(3, 2, 0, 5000), extended(5000, 0), extended(0, 5000)])
    assert.equal(readImageHeader(image), null);
});

test('no bytes after a signature make the reader fail or run on', () => {
  const starts = Object.values(SAMPLES).flatMap((samples) => samples.map((sample) => sample.subarray(0, 30)));
  fc.assert(
    fc.property(
      fc.constantFrom(...starts),
      fc.nat(30),
      fc.uint8Array({ maxLength: 4096 }),
      (start, kept, bytes) => {
        const header = readImageHeader(Buffer.concat([start.subarray(0, kept), bytes]));
        assert.ok(header === null || (header.width >= 0 && header.height >= 0));
      },
    ),
    { numRuns: 3000 },
  );
});
