import { once } from 'node:events';
import { SMTPServer } from 'smtp-server';
import { until } from '../harness.ts';

/** A message as it came: its header lines and its text. */
export interface Received {
  to: string[];
  subject: string;
  text: string;
}

export interface MailServer extends AsyncDisposable {
  /** `smtp` of the configuration. */
  yaml: string;
  /** The environment variable that the configuration names. */
  env: NodeJS.ProcessEnv;
  received: Received[];
  /** The next message that comes to this address. */
  next(to: string): Promise<Received>;
}

/** A mail server on this machine that takes messages of one user and keeps them. */
export async function startMailServer(): Promise<MailServer> {
  const received: Received[] = [];
  const server = new SMTPServer({
    hideSTARTTLS: true,
    allowInsecureAuth: true,
    disableReverseLookup: true,
    onAuth({ username, password }, _session, done) {
      const right = username === 'sluice' && password === 'mail password';
      done(right ? null : new Error('no'), { user: username });
    },
    onData(stream, { envelope }, done) {
      let raw = '';
      stream.setEncoding('utf8').on('data', (text: string) => (raw += text));
      stream.once('end', () => {
        const [head = '', ...body] = raw.replaceAll('\r\n', '\n').split('\n\n');
        received.push({
          to: envelope.rcptTo.map(({ address }) => address),
          subject: /^Subject: (.*)$/m.exec(head)?.[1] ?? '',
          text: body.join('\n\n').replaceAll('=\n', '').replaceAll('=3D', '='),
        });
        done();
      });
    },
  });
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  const address = server.server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const from = 'Sluice <sluice@example.org>';
  let read = 0;
  return {
    yaml: `smtp: { host: 127.0.0.1, port: ${port}, user: sluice, passwordEnv: MAIL_PASSWORD, from: '${from}' }\n`,
    env: { MAIL_PASSWORD: 'mail password' },
    received,
    async next(to) {
      await until(() => received.length > read);
      const message = received[read++];
      if (!message?.to.includes(to)) throw new Error(`a message came to ${message?.to.join(', ')}`);
      return message;
    },
    [Symbol.asyncDispose]: () => new Promise((closed) => server.close(() => closed())),
  };
}

/** The link in a message. */
export function linkIn({ text }: Received): string {
  const link = /^http\S+#\S+$/m.exec(text)?.[0];
  if (link === undefined) throw new Error(`there is no link in ${text}`);
  return link;
}
