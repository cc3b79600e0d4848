import { CodeTabs } from '../../components/code.tsx';
import { ButtonLink } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import type { ItemOf } from '../../api/client.ts';
import { returnsEmbeddings } from '../../format/modality.ts';
import { TextLink } from '../../components/link.tsx';
import { useSession } from '../../state/session.tsx';
import { KEY_VARIABLE, samplesOf } from '../../snippets/samples.ts';
import { playgroundWith, unusable } from './playground-link.ts';

interface ModelCodeProps {
  /** Null: closed. */
  model: ItemOf<'listServedModels'> | null;
  onClose: () => void;
}

/** Code samples for a model. */
export function ModelCode({ model, onClose }: ModelCodeProps) {
  const { public_url } = useSession();
  if (model === null) return null;
  const embeds = returnsEmbeddings(model);
  const request = {
    model: model.id,
    ...(embeds
      ? { input: ['What is a sluice?', 'A gate that controls the flow of water.'] }
      : {
          messages: [{ role: 'user', content: 'What is a sluice?' }],
          ...model.recommended_sampling,
          stream: true,
        }),
  };
  return (
    <Dialog
      open
      onClose={onClose}
      size="large"
      title={model.id}
      hint="Set the environment variable SLUICE_API_KEY to your API key."
      actions={
        unusable(model) === null && <ButtonLink to={playgroundWith(model)}>Try in playground</ButtonLink>
      }
    >
      <CodeTabs
        label="Example request"
        samples={samplesOf({ baseUrl: public_url, key: KEY_VARIABLE, request })}
      />
      <p className="mt-4 text-xs text-ink-3">
        No key yet? <TextLink to="/keys?create=1">Create key</TextLink>. For all parameters, see the{' '}
        <TextLink to={`/docs/${embeds ? 'createEmbeddings' : 'createChatCompletion'}`}>
          API reference
        </TextLink>
        .
      </p>
    </Dialog>
  );
}
