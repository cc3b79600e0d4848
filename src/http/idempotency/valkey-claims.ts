import { hash } from 'node:crypto';
import {
  StoreUnavailableError,
  ValkeyConnection,
  type ValkeyTiming,
} from '../../accounts/limits/valkey-connection.ts';
import { scriptOf } from '../../accounts/limits/valkey-scripts.ts';
import type { Log } from '../../support/log.ts';
import type { Secret } from '../../support/secret.ts';

/** Identifies a generation among the claims. */
interface Claimant {
  /** The account and the key. */
  readonly id: string;
  readonly fingerprint: string;
  readonly requestId: string;
}

/** The claim of another instance. */
export interface OtherClaim {
  readonly fingerprint: string;
  /** Whether the generation is running; false: it has ended, and the other instance has kept the response. */
  readonly running: boolean;
}

/** Claims of idempotency keys by the instances of a service. */
export interface IdempotencyClaims extends AsyncDisposable {
  /** Claims a key. Resolves with the claim of another instance, or null if there is none. */
  claim(claimant: Claimant): Promise<OtherClaim | null>;
  /** Marks a claimed key as ended. The claim expires after `keepMs` milliseconds. */
  keep(claimant: Claimant, keepMs: number): void;
  /** Releases a claim. Does nothing if this instance does not have it. */
  release(claimant: Claimant): void;
}

export interface ValkeyClaimsOptions {
  /** `redis://` or `rediss://`. */
  url: Secret;
  log: Log;
  /** Unique ID of this instance, without spaces. */
  instanceId: string;
  timing?: ValkeyTiming;
  /** When the claim of a running generation expires, in milliseconds. */
  runningMs?: number;
}

const TIMING: ValkeyTiming = { heartbeatMs: 1000, responseMs: 1000, leaseMs: 15_000, retryMs: 500 };

/** The default of `runningMs`. Claims are renewed after a third of this time. */
const RUNNING_MS = 60_000;

/** Keys: the claim. Arguments: its new value, milliseconds until it expires, the existing value that it may replace. */
const CLAIM = scriptOf(`
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[3] then return held end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false`);

/** Keys: the claim. Arguments: prefix of this claimant's values, new value, milliseconds (0: deletes the claim). */
const UPDATE = scriptOf(`
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
if ARGV[3] == '0' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1`);

/** Keys: the instance. Arguments: milliseconds until its heartbeat expires; 0: at once. */
const HEARTBEAT = scriptOf(`
if ARGV[1] == '0' then return redis.call('DEL', KEYS[1]) end
return redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])`);

/** Keys: an instance. Returns whether it is alive. */
const ALIVE = scriptOf(`return redis.call('EXISTS', KEYS[1])`);

/**
 * Claims in Valkey or Redis. A value is `<instance> <request ID> <fingerprint> <running|kept>`. The claims of an instance
 * are void when it has sent no heartbeat for `leaseMs`, because only it has the responses. While the store is
 * unavailable, every key counts as free.
 */
export class ValkeyClaims implements IdempotencyClaims {
  readonly #instanceId: string;
  readonly #timing: ValkeyTiming;
  readonly #runningMs: number;
  readonly #connection: ValkeyConnection;
  readonly #running = new Map<string, Claimant>();
  #renewedAtMs = performance.now();
  #closing = false;

  private constructor({ url, log, instanceId, timing, runningMs }: ValkeyClaimsOptions) {
    this.#instanceId = instanceId;
    this.#timing = timing ?? TIMING;
    this.#runningMs = runningMs ?? RUNNING_MS;
    this.#connection = new ValkeyConnection({
      url,
      log,
      name: 'store of idempotency keys',
      timing: this.#timing,
      onConnected: () => this.#connected(),
      onHeartbeat: () => this.#heartbeat(),
      onDisconnected: () => {},
    });
  }

  /** Resolves after the first connection attempt, even if it failed. */
  static async open(options: ValkeyClaimsOptions): Promise<ValkeyClaims> {
    const claims = new ValkeyClaims(options);
    await claims.#connection.tried;
    return claims;
  }

  async claim(claimant: Claimant): Promise<OtherClaim | null> {
    this.#running.set(claimant.id, claimant);
    const other = await this.#claim(claimant).catch(nullIfUnavailable);
    if (other !== null && this.#running.get(claimant.id) === claimant) this.#running.delete(claimant.id);
    return other;
  }

  keep(claimant: Claimant, keepMs: number): void {
    this.#running.delete(claimant.id);
    this.#update(claimant, 'kept', keepMs).catch(nullIfUnavailable);
  }

  release(claimant: Claimant): void {
    if (this.#running.get(claimant.id) === claimant) this.#running.delete(claimant.id);
    this.#update(claimant, 'kept', 0).catch(nullIfUnavailable);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing = true;
    if (this.#connection.open) await this.#sendHeartbeat().catch(nullIfUnavailable);
    await this.#connection[Symbol.asyncDispose]();
  }

  async #claim(claimant: Claimant): Promise<OtherClaim | null> {
    const value = this.#valueOf(claimant, 'running');
    for (let replaced = ''; ;) {
      const args = [value, String(this.#runningMs), replaced];
      const held = await this.#connection.evaluate(CLAIM, [claimKey(claimant)], args);
      if (typeof held !== 'string') return null;
      const [instance = '', , fingerprint = '', state] = held.split(' ');
      // A claim of this instance can be replaced: its generation ended while the store was unavailable.
      if (instance !== this.#instanceId && (await this.#isAlive(instance)))
        return { fingerprint, running: state === 'running' };
      replaced = held;
    }
  }

  async #isAlive(instance: string): Promise<boolean> {
    return (await this.#connection.evaluate(ALIVE, [instanceKey(instance)], [])) === 1;
  }

  async #update(claimant: Claimant, state: 'running' | 'kept', ms: number): Promise<void> {
    const args = [this.#ownerOf(claimant), this.#valueOf(claimant, state), String(ms)];
    await this.#connection.evaluate(UPDATE, [claimKey(claimant)], args);
  }

  async #connected(): Promise<void> {
    await this.#connection.load([CLAIM, UPDATE, HEARTBEAT, ALIVE]);
    await this.#sendHeartbeat();
  }

  async #heartbeat(): Promise<void> {
    await this.#sendHeartbeat();
    if (performance.now() - this.#renewedAtMs < this.#runningMs / 3) return;
    this.#renewedAtMs = performance.now();
    await Promise.all(
      this.#running.values().map((claimant) => this.#update(claimant, 'running', this.#runningMs)),
    );
  }

  /** While closing, every heartbeat marks this instance as gone, because a scheduled one can follow the final one. */
  async #sendHeartbeat(): Promise<void> {
    const ms = this.#closing ? 0 : this.#timing.leaseMs;
    await this.#connection.evaluate(HEARTBEAT, [instanceKey(this.#instanceId)], [String(ms)]);
  }

  #ownerOf({ requestId }: Claimant): string {
    return `${this.#instanceId} ${requestId} `;
  }

  #valueOf(claimant: Claimant, state: 'running' | 'kept'): string {
    return `${this.#ownerOf(claimant)}${claimant.fingerprint} ${state}`;
  }
}

/** Hashed, because the store's keys appear in its tools and logs. */
function claimKey({ id }: Claimant): string {
  return `sluice:idempotency:${hash('sha256', id, 'base64url')}`;
}

function instanceKey(instance: string): string {
  return `sluice:idempotency-instance:${instance}`;
}

/** `ValkeyConnection` logs that the store is unavailable. */
function nullIfUnavailable(error: unknown): null {
  if (error instanceof StoreUnavailableError) return null;
  throw error;
}
