import { buildConnector, Client, Pool, ProxyAgent, type Dispatcher } from 'undici';

/** The handler of a request, which is called with whether earlier requests have used its connection. */
export interface ConnectionUser extends Dispatcher.DispatchHandler {
  /** Called before the request is sent. */
  onConnection(isReused: boolean): void;
}

/**
 * The connections to one replica. A server or a proxy may have closed an idle connection, which the client only notices
 * when it uses it. A request that is lost in this way can be sent again on a new connection.
 */
export class ReplicaConnections {
  readonly #reusing: Dispatcher;
  readonly #new: Dispatcher;
  /** The origin, which the dispatcher of a proxy needs with each request; null: there is no proxy. */
  readonly #origin: string | null;

  /** `proxy`: the URL of the proxy to connect through; null: none. */
  constructor(origin: string, options: Pool.Options, proxy: string | null) {
    const open = (create?: Pool.Options['factory']): Dispatcher => {
      const settings = create === undefined ? options : { ...options, factory: create };
      if (proxy === null) return new Pool(origin, settings);
      return new ProxyAgent({
        uri: proxy,
        connectTimeout: options.connectTimeout,
        factory: (url, more) => new Pool(url, Object.assign({}, settings, more)),
      });
    };
    this.#origin = proxy === null ? null : origin;
    this.#reusing = open((url, more) => new ReusedConnection(url, more));
    this.#new = open();
  }

  /** Sends a request on an idle connection, if there is one. */
  dispatch(options: Dispatcher.DispatchOptions, handler: ConnectionUser): void {
    this.#reusing.dispatch(this.#addressed(options), handler);
  }

  /** Sends a request on a new connection, which is closed after the response. */
  dispatchOnNew(options: Dispatcher.DispatchOptions, handler: ConnectionUser): void {
    handler.onConnection(false);
    this.#new.dispatch({ ...this.#addressed(options), reset: true }, handler);
  }

  /** Sends a request that can be repeated. If its connection is lost, sends it once more on a new connection. */
  async request(options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData> {
    try {
      return await this.#reusing.request(this.#addressed(options));
    } catch (error) {
      if (!isLostConnection(error)) throw error;
      return await this.#new.request({ ...this.#addressed(options), reset: true });
    }
  }

  #addressed<O extends Dispatcher.DispatchOptions>(options: O): O {
    return this.#origin === null ? options : { ...options, origin: this.#origin };
  }

  async destroy(reason: Error): Promise<void> {
    await Promise.all([this.#reusing.destroy(reason), this.#new.destroy(reason)]);
  }
}

/** Connects to a port that may change. */
export function connectAt(port: () => number, timeout: number): buildConnector.connector {
  const connect = buildConnector({ timeout });
  return (options, callback) => connect({ ...options, port: `${port()}` }, callback);
}

class ReusedConnection extends Client {
  // `stats` would count all requests of the client for each request.
  #connected = false;

  constructor(origin: string | URL, options: object) {
    super(origin, options);
    this.on('connect', () => (this.#connected = true));
    this.on('disconnect', () => (this.#connected = false));
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    // A new connection is opened only when its first request is dispatched.
    if (isConnectionUser(handler)) handler.onConnection(this.#connected);
    return super.dispatch(options, handler);
  }
}

function isConnectionUser(handler: Dispatcher.DispatchHandler): handler is ConnectionUser {
  return 'onConnection' in handler;
}

/** Codes of the errors of a connection that was open. */
const LOST: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

function isLostConnection(error: unknown): boolean {
  return error instanceof Error && 'code' in error && LOST.has(error.code);
}
