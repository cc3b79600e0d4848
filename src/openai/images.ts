import { BlockList, isIP } from 'node:net';
import { crc32 } from 'node:zlib';
import {
  IMAGE_DETAILS,
  imagesOf,
  textWithMarkers,
  type GenerationRequest,
  type Image,
  type ImageDetail,
  type ImageFile,
  type ImageFormat,
  type ImageLimits,
} from '../generation.ts';
import type { ServiceError } from '../errors.ts';
import type { Notes } from '../notes.ts';
import { readImageHeader, type ImageHeader } from './image-header.ts';
import { asString, unsupported, wrongType, wrongValue } from './values.ts';

/** Maximum width and height of an image, in pixels. An image of this size takes 200 MB when it is decoded. */
export const MAX_IMAGE_SIDE = 8192;

/** Maximum length of the URL of an image, in characters. */
export const MAX_IMAGE_URL = 8192;

/** An image without its place in a message. */
type ReadImage = Pick<Image, 'url' | 'digest' | 'file' | 'path'>;

/** The content of a message, which is collected in parts. */
export class Content {
  /** What is between two texts in a row. */
  readonly #separator: string;
  readonly #images: Image[] = [];
  #text = '';
  #endsWithText = false;

  constructor(separator: string) {
    this.#separator = separator;
  }

  get text(): string {
    return this.#text;
  }

  get images(): readonly Image[] {
    return this.#images;
  }

  /** Whether nothing was added. */
  get isEmpty(): boolean {
    return this.#images.length === 0 && !this.#endsWithText;
  }

  /** Returns the text with a marker in the place of each image. */
  withMarkers(): string {
    return textWithMarkers(this.#text, this.#images);
  }

  addText(text: string): void {
    this.#text += this.#endsWithText ? this.#separator + text : text;
    this.#endsWithText = true;
  }

  addImage(image: ReadImage, detail: ImageDetail | null): void {
    this.#images.push({ ...image, detail, at: this.#text.length });
    this.#endsWithText = false;
  }
}

/** Returns the text of a message that is not one of the user. Throws `unsupported_parameter` if it has an image. */
export function textOnly({ text, images: [image] }: Content): string {
  if (image === undefined) return text;
  throw imageOfOther(image.path);
}

/** The error for an image of a message that is not one of the user. */
export function imageOfOther(path: string): ServiceError {
  return unsupported(path, 'is an image, and only messages of the role `user` can have images');
}

/** Notes the images of the result of a call: models take them only in messages of the user. */
export function noteMovedImages({ images }: Content, notes: Notes): void {
  for (const { path } of images) notes.add(path, 'sent in a user message (image of a result)');
}

/** Reads the URL of an image: a data URI, or an `https` URL. Throws a 400 with its path. */
export function readImageUrl(value: unknown, path: string): ReadImage {
  const url = asString(value, path);
  if (!/^data:/i.test(url)) {
    const checked = checkedUrl(url, path);
    return { url: checked, digest: checked, file: null, path };
  }
  const comma = url.indexOf(',');
  const type = comma > MAX_TYPE ? undefined : DATA_TYPE.exec(url.slice(5, Math.max(5, comma)))?.[1];
  if (type === undefined)
    throw wrongValue(path, `a data URI such as \`data:image/png;base64,…\`, with ${IMAGE}`);
  const data = url.slice(comma + 1);
  const { digest, file } = readFile(data, type, path);
  const start = dataStart(file);
  return { url: url.startsWith(start) ? url : start + data, digest, file, path };
}

/** Returns the start of a data URI in the form that all servers read. Some know no parameters, or compare the case. */
const dataStart = ({ format }: ImageFile): string => `data:image/${format};base64,`;

/** Maximum length of a data URI up to its comma. */
const MAX_TYPE = 128;
const DATA_TYPE = /^([\w.+-]+\/[\w.+-]+)(?:;[^;,]+)*;base64$/i;

/** Reads an image in base64. Throws a 400 with the path of `data` or of `type`, its media type. */
export function readImageData(
  type: { value: unknown; path: string },
  data: { value: unknown; path: string },
): ReadImage {
  const text = asString(data.value, data.path);
  const media = asString(type.value, type.path);
  if (formatOf(media) === undefined) throw wrongValue(type.path, `one of ${MEDIA_TYPES.join(', ')}`);
  const { digest, file } = readFile(text, media, data.path);
  return { url: dataStart(file) + text, digest, file, path: data.path };
}

export function readImageDetail(value: unknown, path: string): ImageDetail | null {
  if (value === null) return null;
  const found = IMAGE_DETAILS.find((one) => one === value);
  if (found !== undefined) return found;
  if (typeof value !== 'string') throw wrongType(path, 'a string', value);
  throw wrongValue(path, `one of ${IMAGE_DETAILS.join(', ')}`);
}

const MEDIA_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const IMAGE = 'a PNG, JPEG, GIF or WebP image';

function formatOf(mediaType: string): ImageFormat | undefined {
  switch (mediaType.toLowerCase()) {
    case 'image/png':
      return 'png';
    case 'image/jpeg':
    // Not a registered type, but common.
    case 'image/jpg':
      return 'jpeg';
    case 'image/gif':
      return 'gif';
    case 'image/webp':
      return 'webp';
    default:
      return undefined;
  }
}

function readFile(base64: string, mediaType: string, path: string): { digest: string; file: ImageFile } {
  const format = formatOf(mediaType);
  if (format === undefined) throw wrongValue(path, `${IMAGE}; other formats are not supported`);
  const file = decode(base64);
  if (file === null) throw wrongValue(path, 'valid base64, with padding and without spaces');
  const { header, bytes, checksum } = file;
  if (header === null || header.width === 0 || header.height === 0)
    throw wrongValue(path, `${IMAGE}; these bytes are none`);
  if (header.format !== format)
    throw wrongValue(
      path,
      `an image of its media type; the type says ${format}, and the bytes are ${header.format}`,
    );
  if (header.width > MAX_IMAGE_SIDE || header.height > MAX_IMAGE_SIDE) {
    const size = `${header.width} x ${header.height}`;
    throw wrongValue(
      path,
      `an image of at most ${MAX_IMAGE_SIDE} x ${MAX_IMAGE_SIDE} pixels; this one has ${size}`,
    );
  }
  return { digest: `${format} ${bytes} ${checksum.toString(16)}`, file: { ...header, bytes } };
}

/** How much of an image is decoded at once, in bytes. Almost all images have their header in the first piece. */
const PIECE = 393_216;

/** A buffer for one piece, so that megabytes of images are not allocated once more. */
const piece = Buffer.alloc(PIECE);

/**
 * Decodes an image piece by piece, which takes about 15 ms for 20 MB. Returns null for text that is not base64: Node's
 * decoder is the fastest one, but skips other characters, which makes a piece shorter.
 */
function decode(base64: string): { header: ImageHeader | null; bytes: number; checksum: number } | null {
  // The decoder also accepts the alphabet for URLs, and reads only the low byte of other characters.
  const isAscii = Buffer.byteLength(base64) === base64.length;
  if (!isAscii || base64.length % 4 !== 0 || base64.includes('-') || base64.includes('_')) return null;
  const bytes = (base64.length / 4) * 3 - (base64.endsWith('==') ? 2 : Number(base64.endsWith('=')));
  let header: ImageHeader | null = null;
  let checksum = 0;
  for (let start = 0; start < bytes; start += PIECE) {
    const at = (start / 3) * 4;
    const decoded = piece.subarray(0, piece.write(base64.slice(at, at + (PIECE / 3) * 4), 'base64'));
    if (decoded.length !== Math.min(PIECE, bytes - start)) return null;
    if (start === 0) header = readImageHeader(decoded);
    checksum = crc32(decoded, checksum);
  }
  // Editors put megabytes of metadata before the header of a JPEG image.
  if (bytes > PIECE) header ??= readImageHeader(Buffer.from(base64, 'base64'));
  return { header, bytes, checksum };
}

/**
 * Checks a URL that the server of a model would fetch from inside its network. Returns it as it was understood: libraries
 * read backslashes, spaces and missing slashes in different ways, and find other hosts.
 */
function checkedUrl(text: string, path: string): string {
  const url = text.length > MAX_IMAGE_URL ? null : URL.parse(text);
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '') {
    throw wrongValue(
      path,
      `a data URI such as \`data:image/png;base64,…\`, or an \`https\` URL of at most ${MAX_IMAGE_URL} characters without a user name`,
    );
  }
  if (isPrivate(url.hostname)) throw wrongValue(path, 'a URL with a public host');
  return url.href;
}

/** Names that resolvers answer with this machine or its network. */
const PRIVATE_NAME = /(?:^|\.)(?:localhost|localdomain|local|internal|svc|lan|home\.arpa)\.?$/;

/** Whether a host names this machine or a private network. What its name resolves to is not known. */
function isPrivate(hostname: string): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  switch (isIP(host)) {
    case 4:
      return PRIVATE.check(host, 'ipv4');
    case 6:
      return PRIVATE.check(host, 'ipv6');
    default: {
      const labels = host.replace(/\.$/, '').split('.');
      // A name without a dot is looked up in the own domain. What resolvers make of an empty label is not known.
      return labels.length === 1 || labels.includes('') || PRIVATE_NAME.test(host);
    }
  }
}

/** The special-purpose addresses of RFC 6890. An IPv4 address within an IPv6 address is checked like itself. */
const PRIVATE = new BlockList();
for (const [address, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 3],
] as const)
  PRIVATE.addSubnet(address, prefix, 'ipv4');
for (const [address, prefix] of [
  ['::', 96],
  ['64:ff9b::', 32],
  ['100::', 64],
  ['2002::', 16],
  ['fc00::', 7],
  ['fe80::', 9],
  ['ff00::', 8],
] as const)
  PRIVATE.addSubnet(address, prefix, 'ipv6');

/**
 * Checks the images of a request against the bounds of its model, and notes in the request how many tokens they may take.
 * `limits`: null if the model takes only text. Throws a 400 with the path of the image.
 */
export function admitImages(request: GenerationRequest, limits: ImageLimits | null): void {
  const images = imagesOf(request);
  const [first] = images;
  if (first === undefined) return;
  if (limits === null) {
    const why =
      'is an image, and this model takes only text; use a model whose `architecture.modality` in `GET /v1/models` is `text+image->text`';
    throw unsupported(first.path, why);
  }
  const surplus = images[limits.max];
  if (surplus !== undefined)
    throw wrongValue(surplus.path, `one of at most ${limits.max} images of a request`, images.length);
  for (const { file, path } of images) {
    if (file === null && !limits.urls)
      throw unsupported(path, 'must be a data URI, because the server of this model may not fetch images');
    if (file !== null && file.bytes > limits.bytes)
      throw wrongValue(path, `an image of at most ${limits.bytes} bytes`, file.bytes);
  }
  switch (request.kind) {
    case 'chat':
      request.imageTokens = limits.tokens;
      break;
    case 'text':
    case 'embedding':
  }
}
