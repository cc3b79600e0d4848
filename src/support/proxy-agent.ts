import { BlockList, isIP } from 'node:net';
import { Agent, Pool, ProxyAgent, request, setGlobalDispatcher, type Dispatcher } from 'undici';

/** Thrown for an invalid variable of a proxy. The message has no value, which may contain a password. */
export class ProxyVariableError extends Error {
  override readonly name = 'ProxyVariableError';
}

/** `NO_PROXY` if it is not set: addresses of private networks, which proxies to the Internet do not reach. */
const PRIVATE_NETWORKS = '10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,169.254.0.0/16,fc00::/7,fe80::/10';

/**
 * Returns the proxy for a URL by the variables `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, whose names may be in lower case;
 * null: none. `https` URLs use `HTTP_PROXY` if `HTTPS_PROXY` is not set. This machine never needs a proxy. Throws a
 * `ProxyVariableError`.
 */
export function proxyOf(url: URL, env: NodeJS.ProcessEnv): string | null {
  const names = url.protocol === 'https:' ? ['HTTPS_PROXY', 'HTTP_PROXY'] : ['HTTP_PROXY'];
  const name = names.find((each) => valueOf(env, each) !== '');
  if (name === undefined || isExempt(url, env)) return null;
  return checkedProxy(env, name);
}

/** Connects through the proxies of `proxyOf`. Throws a `ProxyVariableError` also for a variable that is not used. */
export function proxyAgent(env: NodeJS.ProcessEnv, options: Agent.Options): Dispatcher {
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY']) if (valueOf(env, name) !== '') checkedProxy(env, name);
  return openAgent(env, options);
}

/** Makes `fetch` connect through the proxies of `proxyOf` in the whole process. An invalid variable fails its requests. */
export function useProxies(env: NodeJS.ProcessEnv): void {
  setGlobalDispatcher(openAgent(env, {}));
}

function openAgent(env: NodeJS.ProcessEnv, options: Agent.Options): Dispatcher {
  return new Agent({
    ...options,
    // Called once for each origin.
    factory(origin, more) {
      const proxy = proxyOf(new URL(origin), env);
      return proxy === null ? new Pool(origin, more) : new ProxyAgent({ ...options, uri: proxy });
    },
  });
}

function valueOf(env: NodeJS.ProcessEnv, name: string): string {
  return env[name.toLowerCase()] ?? env[name] ?? '';
}

function checkedProxy(env: NodeJS.ProcessEnv, name: string): string {
  const proxy = valueOf(env, name);
  const url = /^https?:\/\//i.test(proxy) ? URL.parse(proxy) : null;
  if (url !== null && isEncoded(url.username) && isEncoded(url.password)) return proxy;
  throw new ProxyVariableError(`${name} must be the URL of a proxy, such as http://proxy.example.org:3128`);
}

/** Whether undici can decode a user name or password, which it does when it connects. */
function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

function isExempt(url: URL, env: NodeJS.ProcessEnv): boolean {
  const host = nameOf(url.hostname);
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  if (host === 'localhost' || host.endsWith('.localhost') || matches('127.0.0.0/8', host) || host === '::1')
    return true;
  const list = env['no_proxy'] ?? env['NO_PROXY'] ?? PRIVATE_NETWORKS;
  return list.split(/[\s,]+/).some((entry) => {
    const [, name = entry, only] = /^(\[.*\]|[^:]*):(\d+)$/.exec(entry) ?? [];
    return (only === undefined || only === port) && matches(name, host);
  });
}

/** Returns a host in lower case, without the brackets of IPv6 and the dot of the root. */
function nameOf(host: string): string {
  return host
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
    .toLowerCase();
}

/** Whether an entry of `NO_PROXY`, without a port, has a host: a name with its subdomains, an address or a CIDR block. */
function matches(entry: string, host: string): boolean {
  if (entry === '*') return true;
  const version = isIP(host);
  if (version === 0) {
    const name = nameOf(entry).replace(/^\*?\./, '');
    return name !== '' && (host === name || host.endsWith(`.${name}`));
  }
  const [address = '', bits, ...rest] = entry.split('/');
  const network = nameOf(address);
  const width = version === 4 ? 32 : 128;
  const prefix = bits === undefined ? width : Number(bits);
  const isBlock = bits === undefined || (/^\d+$/.test(bits) && prefix <= width && rest.length === 0);
  if (!isBlock || isIP(network) !== version) return false;
  const type = version === 4 ? 'ipv4' : 'ipv6';
  const block = new BlockList();
  block.addSubnet(network, prefix, type);
  return block.check(host, type);
}

type RequestOptions = NonNullable<Parameters<typeof request>[1]> & {
  dispatcher: Dispatcher;
  signal: AbortSignal;
};

/** Sends a request. Rejects as soon as the signal is aborted; undici alone first waits until the proxy has connected. */
export async function requestWithProxy(url: URL, options: RequestOptions): ReturnType<typeof request> {
  options.signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(options.signal.reason);
  options.signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([request(url, options), aborted]);
  } finally {
    options.signal.removeEventListener('abort', onAbort);
  }
}
