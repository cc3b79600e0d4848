import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import { link, open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { waitForLock } from '../support/file-lock.ts';
import { Secret } from '../support/secret.ts';
import { DatabaseError } from './errors.ts';
import { messageOf } from '../support/thrown.ts';

/**
 * Encrypts secrets for the database with AES-256-GCM. The keys are in `SLUICE_SECRET_KEY` or in a file of the data
 * directory, never in the database. An encrypted secret is `v1:<key ID>:<base64url of IV, ciphertext and tag>`.
 */

const IV_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;
const MAX_KEYS = 20;
/** How long to wait for another process that adds a key, which takes milliseconds. */
const LOCK_MS = 10_000;
const ENCRYPTED = /^v1:([0-9a-f]{8}):([A-Za-z0-9_-]+)$/;

export interface SecretKeysOptions {
  /** The data directory. Its key file is used if `text` is null. */
  home: string;
  /** Value of `SLUICE_SECRET_KEY`: the keys, separated by commas or white space. The first one encrypts. */
  text: Secret | null;
}

/** A key of AES-256-GCM. */
export interface SecretKey {
  /** 8 hexadecimal digits. */
  id: string;
  bytes: Buffer;
}

/** Returns the path of the key file in a data directory. It has one key per line, the newest first. */
export function secretKeyPath(home: string): string {
  return join(home, 'secret.key');
}

export class SecretKeys {
  readonly #home: string;
  readonly #text: Secret | null;

  constructor({ home, text }: SecretKeysOptions) {
    this.#home = home;
    this.#text = text;
  }

  /** Whether the keys are in a file of the data directory, which other instances cannot read. */
  get inFile(): boolean {
    return this.#text === null;
  }

  /** Creates the key file if it is needed and does not exist. Rejects with a `DatabaseError` `unwritable`. */
  async createFile(): Promise<void> {
    const path = secretKeyPath(this.#home);
    if (!this.inFile || (await readIfExists(path)) !== null) return;
    // Another process may create the file at the same time; a link never replaces a file.
    await this.#write([newKey()], async (partial) => {
      await link(partial, path).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error;
      });
      await rm(partial);
    });
  }

  /** Adds a new key before the others of the key file. Existing secrets must then be encrypted again. */
  async addKey(): Promise<void> {
    const path = secretKeyPath(this.#home);
    // Of two processes that add a key at the same time, one would lose that of the other.
    using _lock = await waitForLock(`${path}.lock`, AbortSignal.timeout(LOCK_MS));
    const keys = [newKey(), ...(await this.#read())].slice(0, MAX_KEYS);
    await this.#write(keys, (partial) => rename(partial, path));
  }

  /**
   * Encrypts a secret. `place` is where it is stored, such as the column and the ID of the row; the result cannot be
   * decrypted elsewhere. Rejects with a `DatabaseError` `secret_key`.
   */
  async encrypt(secret: string, place: string): Promise<string> {
    const [key] = await this.#read();
    if (key === undefined) throw this.#missing();
    return `v1:${key.id}:${encryptWith(key, secret, place).toString('base64url')}`;
  }

  /**
   * Decrypts what `encrypt` returned for the same place. Text that is not encrypted, which only earlier versions wrote,
   * is returned unchanged. Rejects with a `DatabaseError` `secret_key` if the key is missing or the text was changed.
   */
  async decrypt(stored: string, place: string): Promise<string> {
    const [, id, text = ''] = ENCRYPTED.exec(stored) ?? [];
    if (id === undefined) return stored;
    const key = (await this.#read()).find((known) => known.id === id);
    if (key === undefined) throw this.#missing(id);
    try {
      return decryptWith(key, Buffer.from(text, 'base64url'), place);
    } catch (cause) {
      throw new DatabaseError('secret_key', `The encrypted value of ${place} was changed or damaged.`, {
        cause,
      });
    }
  }

  /** Derives a key for another purpose from each of the keys. The first one is the newest. */
  async derive(purpose: string): Promise<readonly SecretKey[]> {
    const keys = await this.#read();
    return keys.map(({ bytes }) => keyOf(Buffer.from(hkdfSync('sha256', bytes, '', purpose, KEY_BYTES))));
  }

  /** Throws a `DatabaseError` `secret_key` if a key with one of these IDs is missing. */
  async assertKnown(ids: readonly string[]): Promise<void> {
    const known = new Set((await this.#read()).map(({ id }) => id));
    const missing = ids.find((id) => !known.has(id));
    if (missing !== undefined) throw this.#missing(missing);
  }

  /** Reads the file at each use: secrets are used rarely, and `sluice secrets rotate` may have added a key. */
  async #read(): Promise<readonly SecretKey[]> {
    if (this.#text !== null) return parse(this.#text.reveal()) ?? [];
    const path = secretKeyPath(this.#home);
    const text = await readIfExists(path);
    if (text === null) return [];
    const keys = parse(text);
    if (keys !== null) return keys;
    throw new DatabaseError(
      'secret_key',
      `The key file ${path} is damaged: expected lines of 64 hexadecimal digits. Restore it from a backup.`,
    );
  }

  /** Writes the keys to a new file with mode 0600, syncs it and calls `publish` with its path. */
  async #write(keys: readonly SecretKey[], publish: (partial: string) => Promise<void>): Promise<void> {
    const path = secretKeyPath(this.#home);
    const partial = `${path}.${randomBytes(4).toString('hex')}`;
    try {
      await using file = await open(partial, 'wx', 0o600);
      await file.writeFile(keys.map(({ bytes }) => `${bytes.toString('hex')}\n`).join(''));
      await file.sync();
      await publish(partial);
    } catch (cause) {
      await rm(partial, { force: true }).catch(() => {});
      const reason = messageOf(cause);
      throw new DatabaseError('unwritable', `Cannot write the key file ${path} (${reason}).`, { cause });
    }
  }

  #missing(id?: string): DatabaseError {
    const place = this.inFile
      ? `${secretKeyPath(this.#home)} does not contain it. Restore that file from a backup, or set SLUICE_SECRET_KEY`
      : 'SLUICE_SECRET_KEY does not contain it. Add it after the first key of SLUICE_SECRET_KEY, separated by a comma';
    return new DatabaseError(
      'secret_key',
      `The database has secrets encrypted with ${id === undefined ? 'a key' : `the key ${id}`}, and ${place}. ` +
        'Several instances that share a database need the same SLUICE_SECRET_KEY.',
    );
  }
}

/** Encrypts a text. The result is the IV, the ciphertext and the tag, and can only be decrypted for the same place. */
export function encryptWith(key: SecretKey, text: string, place: string): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key.bytes, iv).setAAD(Buffer.from(place));
  return Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
}

/** Decrypts what `encryptWith` returned. Throws if it was changed, or encrypted for another place. */
export function decryptWith(key: SecretKey, bytes: Buffer, place: string): string {
  const decipher = createDecipheriv('aes-256-gcm', key.bytes, bytes.subarray(0, IV_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(Buffer.from(place)).setAuthTag(bytes.subarray(-TAG_BYTES));
  const start = decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES), undefined, 'utf8');
  return start + decipher.final('utf8');
}

function newKey(): SecretKey {
  return keyOf(randomBytes(KEY_BYTES));
}

function keyOf(bytes: Buffer): SecretKey {
  return { id: createHash('sha256').update('sluice key').update(bytes).digest('hex').slice(0, 8), bytes };
}

function parse(text: string): SecretKey[] | null {
  const parts = text.split(/[\s,]+/).filter((part) => part !== '');
  if (parts.length === 0 || parts.length > MAX_KEYS) return null;
  if (!parts.every((part) => /^[0-9a-f]{64}$/i.test(part))) return null;
  return parts.map((part) => keyOf(Buffer.from(part, 'hex')));
}

async function readIfExists(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return null;
    const reason = messageOf(cause);
    throw new DatabaseError('secret_key', `The key file ${path} cannot be read (${reason}).`, { cause });
  }
}
