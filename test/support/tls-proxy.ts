import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/** A self-signed certificate for 127.0.0.1, ::1 and localhost, valid until 2126. Only tests trust it. */
export const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBszCCAVigAwIBAgIUdD/eFoZ2MQviFJ4o1Mx2bhgTt94wCgYIKoZIzj0EAwIw
FjEUMBIGA1UEAwwLU2x1aWNlIHRlc3QwIBcNMjYxMTI4MjMwMzAzWhgPMjEyNjEx
MDQyMzAzMDNaMBYxFDASBgNVBAMMC1NsdWljZSB0ZXN0MFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEpPtQ/KmsT7gtYC7eVICRfXL2npd5wMkqYYXKOivJNcufzt8a
Iz84nRvQBZ7uvD5M9BWt1AcLNX7JrQgovyYlD6OBgTB/MB0GA1UdDgQWBBTBz0Qa
gONw/i/HFjpHt3KEiluYWjAfBgNVHSMEGDAWgBTBz0QagONw/i/HFjpHt3KEiluY
WjAPBgNVHRMBAf8EBTADAQH/MCwGA1UdEQQlMCOHBH8AAAGHEAAAAAAAAAAAAAAA
AAAAAAGCCWxvY2FsaG9zdDAKBggqhkjOPQQDAgNJADBGAiEA1tdlpaipaP8ptc9c
cV1jhPLvhMoqlKPak1bK49qtp4gCIQC+mmKbPjX10N8Zosglz2Q874JDqKnszVe2
BHh+6B/zKg==
-----END CERTIFICATE-----
`;

const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg1vvN8lvNJYTrP4Ku
P99xgXObWbLqYtgQ23FBHvCRjh+hRANCAASk+1D8qaxPuC1gLt5UgJF9cvael3nA
ySphhco6K8k1y5/O3xojPzidG9AFnu68Pkz0Fa3UBws1fsmtCCi/JiUP
-----END PRIVATE KEY-----
`;

/** A server that decrypts connections and forwards them to a port of this machine. */
export interface TlsProxy extends AsyncDisposable {
  port: number;
  /** Number of encrypted connections so far. */
  connections(): number;
}

/** Starts a TLS proxy. `startTls`: clients first ask whether the server speaks TLS, as those of PostgreSQL do. */
export async function tlsProxy(target: number, { startTls = false } = {}): Promise<TlsProxy> {
  const sockets = new Set<Socket>();
  let connections = 0;
  const secure = (raw: Socket) => {
    const socket = new TLSSocket(raw, { isServer: true, key: KEY, cert: CERTIFICATE });
    const upstream = connect(target, '127.0.0.1');
    socket.on('secure', () => connections++);
    for (const one of [raw, socket, upstream]) {
      sockets.add(one);
      one.on('error', () => {}).on('close', () => [socket, upstream].forEach((other) => other.destroy()));
    }
    socket.pipe(upstream).pipe(socket);
  };
  const server = createServer((raw) => {
    if (!startTls) return secure(raw);
    raw.once('data', () => {
      raw.pause();
      raw.write('S');
      secure(raw);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // It listens on a port.
  const { port } = server.address() as AddressInfo;
  return {
    port,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
