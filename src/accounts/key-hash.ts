import { hash } from 'node:crypto';

/**
 * What is stored and looked up instead of a key: its SHA-256 in hexadecimal. A slow hash protects what people can
 * guess; nobody guesses 256 random bits, so a fast one is right, and it costs a microsecond a request. Looking up
 * by it leaks nothing by time: to steer a comparison one would have to choose the hash.
 */
export function hashKey(key: string): string {
  return hash('sha256', key);
}
