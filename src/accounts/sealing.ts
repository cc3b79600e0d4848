import { decryptWith, encryptWith, type SecretKey, type SecretKeys } from '../database/secret-keys.ts';
import type { Sealer } from '../core/protocol.ts';

/** Length of the ID of the key before a sealed text, in hexadecimal digits. */
const ID_LENGTH = 8;

/** Seals texts that callers keep, for their account. */
export class Sealing {
  readonly #keys: readonly SecretKey[];

  /** The first key seals. */
  constructor(keys: readonly SecretKey[]) {
    this.#keys = keys;
  }

  /** Reads the keys of the service. Texts that an instance with other keys sealed cannot be opened. */
  static async open(keys: SecretKeys): Promise<Sealing> {
    return new Sealing(await keys.derive('sealed texts'));
  }

  of(accountId: string): Sealer {
    return {
      seal: (text) => {
        const [key] = this.#keys;
        if (key === undefined) throw new Error('no key to seal with');
        return key.id + encryptWith(key, text, accountId).toString('base64url');
      },
      open: (sealed) => {
        const key = this.#keys.find(({ id }) => sealed.startsWith(id));
        if (key === undefined) return null;
        try {
          return decryptWith(key, Buffer.from(sealed.slice(ID_LENGTH), 'base64url'), accountId);
        } catch {
          return null;
        }
      },
    };
  }
}
