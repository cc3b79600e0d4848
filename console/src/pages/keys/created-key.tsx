import { useState } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { CodeTabs } from '../../components/code.tsx';
import { Confirm } from '../../components/confirm.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { OneTimeSecret } from '../../components/one-time-secret.tsx';
import { useSession } from '../../shell/session.tsx';
import { samplesOf } from '../../snippets/samples.ts';

/** Shows a new key once, with example requests. */
export function CreatedKey({ created, onClose }: { created: ResponseOf<'createKey'>; onClose: () => void }) {
  const [copied, setCopied] = useState(false);
  const [asking, setAsking] = useState(false);
  return (
    <Dialog
      open
      modal
      size="medium"
      title={`API key ${created.name}`}
      onClose={() => (copied ? onClose() : setAsking(true))}
      actions={
        <Button kind="primary" onClick={() => (copied ? onClose() : setAsking(true))}>
          Done
        </Button>
      }
    >
      <div className="space-y-6">
        {/* Also detects a manual copy of the selected key. */}
        <div onCopy={() => setCopied(true)}>
          <OneTimeSecret text={created.key} what="key" label="API key" onCopied={() => setCopied(true)}>
            Copy this key now. It is shown only once, and not even an operator can recover it. Store it in a
            safe place.
          </OneTimeSecret>
        </div>
        {created.kind === 'admin' ? (
          <p className="text-sm text-ink-3">
            Use this key for the management API: send it as a{' '}
            <code className="font-mono text-xs">Bearer</code> token to paths under{' '}
            <code className="font-mono text-xs">/api</code>.
          </p>
        ) : (
          <FirstCall created={created} />
        )}
      </div>
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title="Close without copying the key?"
        action="Close"
        onConfirm={onClose}
      >
        <p>The key cannot be shown again. If you lose it, you need to create a new one.</p>
      </Confirm>
    </Dialog>
  );
}

function FirstCall({ created }: { created: ResponseOf<'createKey'> }) {
  const { public_url } = useSession();
  const models = useRead('listServedModels', undefined);
  const allowed = created.allowed_models;
  const usable = models.data?.data.filter(({ id }) => allowed === null || allowed.includes(id)) ?? [];
  const found = usable.find(({ state }) => state === 'ready') ?? usable[0];
  const model = found?.id ?? allowed?.[0];
  if (model === undefined) return null;
  const messages = [{ role: 'user', content: 'What is a sluice?' }];
  const request = { model, messages, ...found?.recommended_sampling };
  return (
    <section>
      <h3 className="mb-1 text-sm font-semibold">Example request</h3>
      <CodeTabs
        label="Example request"
        samples={samplesOf({ baseUrl: public_url, key: created.key, request })}
      />
    </section>
  );
}
