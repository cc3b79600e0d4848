import { BlockList, isIP } from 'node:net';
import { crc32 } from 'node:zlib';
import {
  asChat,
  IMAGE_DETAILS,
  imagesOf,
  imagesOfMessage,
  withImageText,
  type ChatRequest,
  type GenerationRequest,
  type Image,
  type ImageDetail,
  type ImageLimits,
  type Message,
} from '../core/generation.ts';
import type { ServiceError } from '../core/errors.ts';
import type { Notes } from '../core/notes.ts';
import { readImageHeader, type ImageHeader } from './image-header.ts';
import { unsupported, wrongValue } from '../json/values.ts';
import type { Element } from './element.ts';

/** Maximum area of an image, in pixels: 8192 x 8192. An image of this size takes 200 MB when it is decoded. */
export const MAX_IMAGE_PIXELS = 67_108_864;

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
  #refusal: ServiceError | null = null;

  constructor(separator: string) {
    this.#separator = separator;
  }

  get text(): string {
    return this.#text;
  }

  get images(): readonly Image[] {
    return this.#images;
  }

  /** The error for a file in the newest message of the user; null: none. */
  get refusal(): ServiceError | null {
    return this.#refusal;
  }

  /** Whether it has neither text nor images. */
  get isEmpty(): boolean {
    return this.#images.length === 0 && this.#text === '';
  }

  /** An empty text changes nothing. */
  addText(text: string): void {
    if (text === '') return;
    this.#text += this.#endsWithText ? this.#separator + text : text;
    this.#endsWithText = true;
  }

  /**
   * Adds a text in the place of a part that models cannot read, of a result or a message of the user. Agents send their
   * whole history with each request, so refusing it would end the conversation. `refusal`: the error if the message is the
   * newest one of the user.
   */
  leaveOut(path: string, notes: Notes, refusal: ServiceError | null = null): void {
    if (refusal !== null && notes.strict) throw refusal;
    this.#refusal ??= refusal;
    notes.add(path, 'left out (only text and images are read)');
    this.addText('[left out: only text and images are read]');
  }

  addImage(image: ReadImage, detail: ImageDetail | null): void {
    this.#images.push({ ...image, detail, at: this.#text.length });
    this.#endsWithText = false;
  }
}

/** Returns the text of a message of the system or the assistant. Throws `unsupported_parameter` if it has an image. */
export function textOnly({ text, images: [image] }: Pick<Content, 'text' | 'images'>): string {
  if (image === undefined) return text;
  throw imageOfOther(image.path);
}

/** The error for an image of a message of the system or the assistant. */
export function imageOfOther(path: string): ServiceError {
  return unsupported(path, 'is an image, and only messages of the user and results of tools can have images');
}

/** Reads the URL of an image in a field: a data URI, or an `https` URL. Throws a 400 with its path. */
export function readImageUrl(element: Element, name: string): ReadImage {
  const [url, path] = [element.text(name), element.at(name)];
  if (!/^data:/i.test(url)) {
    const checked = checkedUrl(url, path);
    return { url: checked, digest: checked, file: null, path };
  }
  const comma = url.indexOf(',');
  if (comma > MAX_START || !/;base64$/i.test(url.slice(0, Math.max(0, comma))))
    throw wrongValue(path, `a data URI such as \`data:image/png;base64,…\`, with ${IMAGE}`);
  return readFile(url.slice(comma + 1), path);
}

/** Maximum length of a data URI up to its comma. */
const MAX_START = 128;

/** Reads an image in base64 from a field. Throws a 400 with its path. */
export function readImageData(element: Element, name: string): ReadImage {
  return readFile(element.text(name), element.at(name));
}

export function readImageDetail(element: Element): ImageDetail | null {
  return element.get('detail') === null ? null : element.oneOf('detail', IMAGE_DETAILS);
}

const IMAGE = 'a PNG, JPEG, GIF or WebP image';

/** Reads the file of an image. Its bytes determine the format, because clients often label images wrongly. */
function readFile(given: string, path: string): ReadImage {
  let base64 = given;
  let file = decode(base64);
  if (file === null) {
    base64 = withoutSpaces(given);
    file = base64 === given ? null : decode(base64);
  }
  if (file === null) throw wrongValue(path, 'valid base64, with padding');
  const { header, bytes, checksum } = file;
  if (header === null || header.width === 0 || header.height === 0)
    throw wrongValue(path, `${IMAGE}; these bytes are none`);
  const { format, width, height } = header;
  if (width * height > MAX_IMAGE_PIXELS) {
    const expected = `an image of at most ${MAX_IMAGE_PIXELS} pixels; this one has ${width} x ${height}`;
    throw wrongValue(path, expected);
  }
  return {
    // Some servers know no parameters of data URIs, compare the case, or refuse another format than the bytes have.
    url: `data:image/${format};base64,${base64}`,
    digest: `${format} ${bytes} ${checksum.toString(16)}`,
    file: { ...header, bytes },
    path,
  };
}

/** Removes white space. Encoders add line breaks, and a regular expression takes long to remove millions of them. */
function withoutSpaces(base64: string): string {
  if (!isAscii(base64)) return base64;
  const bytes = Buffer.from(base64, 'latin1');
  let length = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0;
    // Space, tab, line feed, form feed and carriage return.
    const isSpace = byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0c || byte === 0x0d;
    if (!isSpace) bytes[length++] = byte;
  }
  return bytes.toString('latin1', 0, length);
}

const isAscii = (text: string): boolean => Buffer.byteLength(text) === text.length;

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
  if (!isAscii(base64) || base64.length % 4 !== 0 || base64.includes('-') || base64.includes('_'))
    return null;
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
  // `URL` leaves out the port 443. Other ports belong to other services more often than to web servers.
  if (!isPublic(url.hostname) || url.port !== '')
    throw wrongValue(path, 'a URL with a public host and the port 443');
  return url.href;
}

/** Whether a host is in the public Internet by its name or address. What its name resolves to is not known. */
function isPublic(hostname: string): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  switch (isIP(host)) {
    case 4:
      return !SPECIAL.check(host, 'ipv4');
    case 6:
      return UNICAST.check(host, 'ipv6') && !SPECIAL.check(host, 'ipv6');
    default: {
      const labels = host.replace(/\.$/, '').split('.');
      const [last = ''] = labels.slice(-1);
      // A name without a dot is looked up in the own domain. What resolvers make of an empty label is not known.
      return labels.length > 1 && !labels.includes('') && TOP_LEVEL.test(last) && !PRIVATE_DOMAINS.has(last);
    }
  }
}

/** A top-level domain of the public DNS has only letters, or is internationalized. */
const TOP_LEVEL = /^(?:[a-z]{2,}|xn--.*)$/;

/**
 * Top-level domains that only private networks have: those of IANA's registry of special-use domain names, of RFC 6762
 * (appendix G), those that ICANN does not delegate because networks use them, and the defaults of common software. A name
 * in `.arpa` has no web server.
 */
const PRIVATE_DOMAINS: ReadonlySet<string> = new Set(
  [
    'alt arpa example invalid local localhost onion test',
    'corp home intranet internal lan mail private',
    'cluster consul docker domain intra kubernetes localdomain lxd nomad prv router svc workgroup',
  ].flatMap((names) => names.split(' ')),
);

/** The addresses that are global and of one host. All others, also those that contain an IPv4 address, are special. */
const UNICAST = new BlockList();
UNICAST.addSubnet('2000::', 3, 'ipv6');

/** The addresses of IANA's registries of special-purpose addresses, except those that `UNICAST` excludes. */
const SPECIAL = new BlockList();
for (const [address, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const)
  SPECIAL.addSubnet(address, prefix, 'ipv4');
for (const [address, prefix] of [
  // Of protocols, such as Teredo, whose addresses contain IPv4 addresses.
  ['2001::', 23],
  ['2001:db8::', 32],
  // 6to4.
  ['2002::', 16],
  ['3fff::', 20],
] as const)
  SPECIAL.addSubnet(address, prefix, 'ipv6');

/** What a model that takes only text gets in the place of an image. */
const LEFT_OUT = '[image left out: this model takes only text]';

/**
 * Checks the images of a request that has some against the bounds of its model, and notes in the request how many tokens they may take.
 * `limits`: null if the model takes only text. It gets a text in the place of images in results and before the newest
 * message of the user, because agents send their whole history with each request. Throws a 400 with the path of the image.
 */
export function admitImages(request: GenerationRequest, limits: ImageLimits | null, notes: Notes): void {
  const chat = asChat(request);
  if (chat === null) return;
  if (limits === null) leaveOutImages(chat, notes);
  else checkImages(chat, limits, notes);
}

function leaveOutImages(request: ChatRequest, notes: Notes): void {
  const { messages } = request;
  const newest = startOfNewest(messages);
  for (const [index, message] of messages.entries()) {
    for (const { path } of imagesOfMessage(message)) {
      if (message.role === 'user' && index >= newest) {
        const why =
          'is an image, and this model takes only text; use a model whose `architecture.modality` in `GET /v1/models` is `text+image->text`';
        throw unsupported(path, why);
      }
      notes.add(path, 'left out (this model takes only text)');
    }
  }
  request.messages = messages.map((message) => withImageText(message, LEFT_OUT));
}

/** Returns the index of the newest message of the user, which may be in several parts and between system messages. */
function startOfNewest(messages: readonly Message[]): number {
  const last = messages.findLastIndex(({ role }) => role === 'user');
  const before = messages
    .slice(0, Math.max(last, 0))
    .findLastIndex(({ role }) => role !== 'user' && role !== 'system');
  return before + 1;
}

function checkImages(request: ChatRequest, limits: ImageLimits, notes: Notes): void {
  const images = imagesOf(request);
  const surplus = images[limits.max];
  if (surplus !== undefined)
    throw wrongValue(surplus.path, `one of at most ${limits.max} images of a request`, images.length);
  for (const { file, path } of images) {
    if (file === null && !limits.urls)
      throw unsupported(path, 'must be a data URI, because the server of this model may not fetch images');
    if (file !== null && file.bytes > limits.bytes)
      throw wrongValue(path, `an image of at most ${limits.bytes} bytes`, file.bytes);
  }
  for (const message of request.messages) {
    if (message.role !== 'tool') continue;
    for (const { path } of imagesOfMessage(message))
      notes.add(path, 'sent in a user message (image of a result)');
  }
  request.imageTokens = limits.tokens;
}
