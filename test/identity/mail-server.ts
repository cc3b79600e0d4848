import { once } from 'node:events';
import { SMTPServer } from 'smtp-server';
import { until } from '../harness.ts';

export interface ReceivedEmail {
  to: string[];
  messageId: string;
  subject: string;
  text: string;
}

export interface MailServer extends AsyncDisposable {
  /** Configuration with `smtp`. */
  yaml: string;
  env: NodeJS.ProcessEnv;
  received: ReceivedEmail[];
  /** Why the server refuses emails from now on; null: it accepts them. */
  refuses: string | null;
  /** Waits for the next email, which must be to this address. */
  next(to: string): Promise<ReceivedEmail>;
}

/** Starts an SMTP server that stores the emails it receives. */
export async function startMailServer(): Promise<MailServer> {
  const received: ReceivedEmail[] = [];
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
        const email = {
          to: envelope.rcptTo.map(({ address }) => address),
          messageId: /^Message-ID: (.*)$/m.exec(head)?.[1] ?? '',
          subject: /^Subject: (.*)$/m.exec(head)?.[1] ?? '',
          text: body.join('\n\n').replaceAll('=\n', '').replaceAll('=3D', '='),
        };
        received.push(email);
        done(mailServer.refuses === null ? null : new Error(mailServer.refuses));
      });
    },
  });
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  const address = server.server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const from = 'Sluice <sluice@example.org>';
  let read = 0;
  const mailServer: MailServer = {
    yaml: `smtp: { host: 127.0.0.1, port: ${port}, user: sluice, passwordEnv: MAIL_PASSWORD, from: '${from}' }\n`,
    env: { MAIL_PASSWORD: 'mail password' },
    received,
    refuses: null,
    async next(to) {
      await until(() => received.length > read);
      const message = received[read++];
      if (!message?.to.includes(to)) throw new Error(`an email was sent to ${message?.to.join(', ')}`);
      return message;
    },
    [Symbol.asyncDispose]: () => new Promise((closed) => server.close(() => closed())),
  };
  return mailServer;
}

/** Returns the link in an email. */
export function linkIn({ text }: ReceivedEmail): string {
  const link = /^http\S+#\S+$/m.exec(text)?.[0];
  if (link === undefined) throw new Error(`there is no link in ${text}`);
  return link;
}
