import type { ApiDocument } from '../../api/document.ts';
import { Code, CodeTabs } from '../../components/code.tsx';
import { useSession } from '../../state/session.tsx';
import { curl } from '../../snippets/curl.ts';
import { KEY_VARIABLE, samplesOf } from '../../snippets/samples.ts';
import { addressOf, exampleBody } from './example.ts';
import type { Entry } from '../../api/operations.ts';

interface OperationExampleProps {
  entry: Entry;
  schemas: ApiDocument['components']['schemas'];
  model: string;
  accountId: string;
}

/** Environment variable of an admin key. */
const ADMIN_VARIABLE = '$SLUICE_ADMIN_KEY';

/** Code samples of an operation: inference in three languages, others in curl. */
export function OperationExample({ entry, schemas, model, accountId }: OperationExampleProps) {
  const { public_url: baseUrl } = useSession();
  const body = exampleBody(entry, schemas, { model, accountId });
  if (entry.path.startsWith('/v1/') && body !== null) {
    return <CodeTabs label="Example" samples={samplesOf({ baseUrl, key: KEY_VARIABLE, request: body })} />;
  }
  if (entry.auth === 'session') {
    return (
      <p className="rounded-lg bg-sunken px-4 py-3 text-xs leading-5 text-ink-3">
        Requires a console session. API keys are not accepted.
      </p>
    );
  }
  const key = { key: KEY_VARIABLE, admin: ADMIN_VARIABLE, open: null }[entry.auth];
  const text = curl({
    method: entry.method,
    url: baseUrl.replace(/\/+$/, '') + exampleAddress(entry, model),
    key,
    ...(body !== null && { body }),
  });
  return <Code text={text} what="code" label="Example" language="bash" />;
}

/** Returns the path with the required parameters. */
function exampleAddress(entry: Entry, model: string): string {
  const [namespace = '', name = ''] = model.split('/');
  const required = entry.parameters.filter(({ in: place, required: must }) => place === 'query' && must);
  const given = Object.fromEntries(required.map(({ name: one }) => [one, '…']));
  return decodeURIComponent(
    addressOf(entry, entry.id === 'getModel' ? { ...given, namespace, name } : given),
  );
}
