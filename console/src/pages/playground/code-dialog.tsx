import { useState } from 'react';
import { Segmented } from '../../components/choices.tsx';
import { CodeTabs } from '../../components/code.tsx';
import { Notice } from '../../components/states.tsx';
import { useSession } from '../../state/session.tsx';
import { KEY_VARIABLE, samplesOf } from '../../snippets/samples.ts';
import type { ChatApi } from '../../snippets/translate.ts';
import { CodeWindow } from './code-window.tsx';
import { withoutLargeImages } from './image-files.ts';
import { useModels, usePlaygroundState } from './state.tsx';
import { recommendedOf, sentRequest } from './request.ts';

const CHAT_APIS = [
  { value: 'chat', label: 'Chat completions' },
  { value: 'responses', label: 'Responses' },
  { value: 'messages', label: 'Messages' },
] as const;

export default function CodeDialog({ onClose }: { onClose: () => void }) {
  const { public_url: baseUrl } = useSession();
  const draft = usePlaygroundState((state) => state.draft);
  const errors = usePlaygroundState((state) => state.errors);
  const models = useModels();
  const [chosen, setChosen] = useState(0);
  const [api, setApi] = useState<ChatApi>('chat');
  const column = draft.columns[chosen] ?? draft.columns[0];
  if (column === undefined) return null;
  const { request, placeholders } = withoutLargeImages(
    sentRequest(draft, column, recommendedOf(models, column.model)),
  );
  return (
    <CodeWindow onClose={onClose}>
      <div className="space-y-3">
        {Object.keys(errors).length > 0 && (
          <Notice tone="warn">A parameter is invalid, so this request would be refused.</Notice>
        )}
        {draft.columns.length > 1 && (
          <Segmented
            label="Model"
            value={`${chosen}`}
            choices={draft.columns.map(({ model }, index) => ({
              value: `${index}`,
              label: <span className="max-w-48 truncate">{model.split('/').at(-1)}</span>,
            }))}
            onChange={(value) => setChosen(Number(value))}
          />
        )}
        <Segmented label="API" value={api} choices={CHAT_APIS} onChange={setApi} />
        {api !== 'chat' && Number(request['n'] ?? 1) > 1 && (
          <Notice tone="warn">This API has only one choice per request.</Notice>
        )}
        {placeholders > 0 && (
          <Notice tone="warn">
            The data of large images is left out. Replace each{' '}
            <code className="font-mono text-xs">BASE64_OF_IMAGE</code> with the file in base64.
          </Notice>
        )}
        <CodeTabs label="Current request" samples={samplesOf({ baseUrl, key: KEY_VARIABLE, request, api })} />
      </div>
    </CodeWindow>
  );
}
