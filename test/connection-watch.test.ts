import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { isSpareConnection, keepConnection, watchConnections } from '../src/support/connection-watch.ts';

const TIMEOUTS = { requestMs: 60_000, stallMs: 60_000, idleMs: 60_000 };

describe('connections above the maximum', () => {
  test('take the place of the one that has been without a request for the longest time', async () => {
    await using server = await BoundedServer.open(3);
    const [first, second, third] = [await server.connect(), await server.connect(), await server.connect()];
    await server.request(first, '/');
    const fourth = await server.connect();
    await closed(second);
    const fifth = await server.connect();
    await closed(third);
    for (const socket of [first, fourth, fifth]) await server.request(socket, '/');
  });

  test('of one network close connections of this network, and not those of others', async () => {
    await using server = await BoundedServer.open(4);
    const other = await server.connect('127.0.0.3');
    const flood = await server.connectAll(40, '127.0.0.2');
    await Promise.all(flood.slice(0, -3).map(closed));
    assert.equal(await server.request(other, '/'), 'usual');
  });

  test('do not take the place of one with an authenticated request, also if it has other requests', async () => {
    await using server = await BoundedServer.open(2);
    const [kept, idle] = [await server.connect(), await server.connect()];
    const responses = await server.hold(kept, '/keep', '/');
    await server.connect();
    await closed(idle);
    await server.connectAll(4);
    for (const response of responses) response.end('held');
    await once(kept, 'data');
    assert.equal(kept.destroyed, false);
    await server.connectAll(2);
    await closed(kept);
  });

  test('are accepted for health checks if none can be closed, and count as usual once there is room', async () => {
    await using server = await BoundedServer.open(2);
    const first = await server.connect();
    await server.hold(await server.connect(), '/keep');
    const [response] = await server.hold(first, '/keep');
    const spare = await server.connect();
    assert.equal(await server.request(spare, '/'), 'spare');
    assert.ok(response);
    response.req.socket.destroy();
    await once(response, 'close');
    assert.equal(await server.request(spare, '/'), 'usual');
  });

  test('from one network leave an eighth to others, but not those from a proxy', async () => {
    await using server = await BoundedServer.open(8);
    for (const socket of await server.connectAll(7, '127.0.0.2')) await server.hold(socket, '/keep');
    const greedy = await server.connect('127.0.0.2');
    assert.equal(await server.request(greedy, '/'), 'spare');
    const other = await server.connect('127.0.0.3');
    assert.equal(await server.request(other, '/'), 'usual');

    await using proxied = await BoundedServer.open(8, '127.0.0.2');
    for (const socket of await proxied.connectAll(8, '127.0.0.2')) await proxied.hold(socket, '/keep');
  });
});

async function closed(socket: Socket): Promise<void> {
  if (!socket.closed) await once(socket, 'close');
}

/** A server whose connections are bounded. `/keep` is authenticated, and has no response until its test ends it. */
class BoundedServer implements AsyncDisposable {
  readonly #server = createServer((request, response) => {
    if (request.url === '/keep') keepConnection(request);
    this.#held.push(response);
    if (this.#holds) this.#server.emit('held');
    else response.end(isSpareConnection(request) ? 'spare' : 'usual');
  });
  readonly #clients: Socket[] = [];
  #held: ServerResponse[] = [];
  #holds = false;

  /** `proxy` is the address of a proxy. */
  static async open(max: number, proxy = ''): Promise<BoundedServer> {
    const bounded = new BoundedServer();
    const bounds = { max, isProxy: (address: string) => address === proxy };
    watchConnections(bounded.#server, { ...TIMEOUTS, bounds }, (socket) => socket.destroy());
    bounded.#server.listen(0, '127.0.0.1');
    await once(bounded.#server, 'listening');
    return bounded;
  }

  /** Connects from a loopback address, and returns when the server has accepted or closed the connection. */
  async connect(localAddress = '127.0.0.1'): Promise<Socket> {
    const { port } = this.#server.address() as AddressInfo;
    const accepted = once(this.#server, 'connection');
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    socket.on('error', () => {}).resume();
    this.#clients.push(socket);
    await Promise.all([accepted, once(socket, 'connect')]);
    return socket;
  }

  async connectAll(count: number, localAddress?: string): Promise<Socket[]> {
    const sockets: Socket[] = [];
    while (sockets.length < count) sockets.push(await this.connect(localAddress));
    return sockets;
  }

  /** Sends a request, and returns the end of the response. */
  async request(socket: Socket, path: string): Promise<string> {
    this.#send(socket, path);
    const [bytes] = (await once(socket, 'data')) as [Buffer];
    return bytes.toString().slice(-5);
  }

  /** Sends requests that get no response. Returns their responses when the server has received all. */
  async hold(socket: Socket, ...paths: string[]): Promise<ServerResponse[]> {
    this.#held = [];
    this.#holds = true;
    for (const path of paths) this.#send(socket, path);
    while (this.#held.length < paths.length) await once(this.#server, 'held');
    this.#holds = false;
    return this.#held;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.destroy();
    const ended = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await ended;
  }

  #send(socket: Socket, path: string): void {
    socket.write(`GET ${path} HTTP/1.1\r\nHost: sluice.test\r\n\r\n`);
  }
}
