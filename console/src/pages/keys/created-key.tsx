import { useState } from 'react';
import type { Answer } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { CodeTabs } from '../../components/code.tsx';
import { Confirm } from '../../components/confirm.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { ShownOnce } from '../../components/shown-once.tsx';
import { useSession } from '../../shell/session.tsx';
import { samplesOf } from '../../snippets/samples.ts';

/** A key in the one moment in which it can be seen, and the first call with it. */
export function CreatedKey({ created, onClose }: { created: Answer<'createKey'>; onClose: () => void }) {
  const [copied, setCopied] = useState(false);
  const [asking, setAsking] = useState(false);
  return (
    <Dialog
      open
      modal
      size="medium"
      title={`Your key ${created.name}`}
      onClose={() => (copied ? onClose() : setAsking(true))}
      actions={
        <Button kind="primary" onClick={() => (copied ? onClose() : setAsking(true))}>
          Done
        </Button>
      }
    >
      <div className="space-y-6">
        {/* Whoever marks the key and copies it by hand has it too. */}
        <div onCopy={() => setCopied(true)}>
          <ShownOnce text={created.key} what="key" label="The key" onCopied={() => setCopied(true)}>
            This is the only time that this key is shown: nobody can read it again, neither you nor an
            operator. Put it where your program finds it, and nowhere else.
          </ShownOnce>
        </div>
        {created.kind === 'admin' ? (
          <p className="text-sm text-ink-3">
            It opens the management interface: send it as <code className="font-mono text-xs">Bearer</code> to
            the paths below <code className="font-mono text-xs">/api</code>.
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
        <p>It has not been copied, and cannot be shown again. You would have to make another one.</p>
      </Confirm>
    </Dialog>
  );
}

function FirstCall({ created }: { created: Answer<'createKey'> }) {
  const { public_url } = useSession();
  const models = useRead('listServedModels', undefined);
  const allowed = created.allowed_models;
  const usable = models.data?.data.filter(({ id }) => allowed === null || allowed.includes(id)) ?? [];
  const model = (usable.find(({ state }) => state === 'ready') ?? usable[0])?.id ?? allowed?.[0];
  if (model === undefined) return null;
  const request = { model, messages: [{ role: 'user', content: 'What is a sluice?' }] };
  return (
    <section>
      <h3 className="mb-1 text-sm font-semibold">A first call with it</h3>
      <CodeTabs
        label="A first call"
        samples={samplesOf({ baseUrl: public_url, key: created.key, request })}
      />
    </section>
  );
}
