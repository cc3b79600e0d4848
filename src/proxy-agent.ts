import { EnvHttpProxyAgent, request, type Dispatcher } from 'undici';

/**
 * Connects through the proxies in the variables `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, whose names may be in lower
 * case. Throws an `Error` that names an invalid variable, without its value, which may have a password.
 */
export function proxyAgent(env: NodeJS.ProcessEnv, options: EnvHttpProxyAgent.Options): EnvHttpProxyAgent {
  const valueOf = (name: string) => env[name.toLowerCase()] ?? env[name] ?? '';
  const proxyOf = (name: string) => {
    const proxy = valueOf(name);
    if (proxy === '' || (/^https?:\/\//i.test(proxy) && URL.canParse(proxy))) return proxy;
    throw new Error(`${name} must be the URL of a proxy, such as http://proxy.example.org:3128`);
  };
  return new EnvHttpProxyAgent({
    httpProxy: proxyOf('HTTP_PROXY'),
    httpsProxy: proxyOf('HTTPS_PROXY'),
    noProxy: valueOf('NO_PROXY'),
    ...options,
  });
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
