import { useId, useState } from 'react';
import type { Arguments, ItemOf } from '../../api/client.ts';
import { useAction, useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { TextField } from '../../components/field.tsx';
import { Form } from '../../components/form.tsx';
import type { FieldErrors } from '../../components/field-errors.ts';
import { Tabs } from '../../components/tabs.tsx';
import { returnsEmbeddings } from '../../format/modality.ts';
import { bytes } from '../../format/number.ts';
import { CatalogEntry, CatalogList, type CatalogModel } from './catalog-list.tsx';
import { Refusal } from './memory-refusal.tsx';
import { NEW_OFFER, NEW_SERVER, offerOf, serverOf, type Modality } from './model-draft.ts';
import { KeepField, ModalityField, OfferFields, ServerFields } from './model-forms.tsx';

type Body = Arguments<'addModel'>['body'];

/** The source of the model. */
type Way = 'catalog' | 'file' | 'server';

interface AddModelDialogProps {
  open: boolean;
  /** The served models. */
  models: readonly ItemOf<'listServedModels'>[];
  /** ID of the catalog model that is selected initially; null: none. */
  suggested: string | null;
  onClose: () => void;
  onAdded: (id: string) => void;
}

/** Adds a model from the catalog, a file or another server. */
export default function AddModelDialog({ open, models, suggested, onClose, onAdded }: AddModelDialogProps) {
  const form = useId();
  const [way, setWay] = useState<Way>('catalog');
  // Undefined: the suggested one.
  const [picked, setPicked] = useState<CatalogModel | null | undefined>();
  const catalog = useRead('listCatalog', undefined, { enabled: open && suggested !== null });
  const chosen =
    picked === undefined ? (catalog.data?.data.find(({ id }) => id === suggested) ?? null) : picked;
  const add = useAction('addModel', {
    changes: ['listServedModels', 'listCatalog', 'listEngines'],
    done: ({ id }) => `${id} was added`,
    quiet: true,
  });
  const choose = (model: CatalogModel | null) => {
    add.reset();
    setPicked(model);
  };
  const close = () => {
    add.reset();
    setWay('catalog');
    setPicked(undefined);
    onClose();
  };
  const details = (
    <ModelForm
      key={way === 'catalog' ? chosen?.id : way}
      id={form}
      way={way}
      chosen={chosen}
      error={add.error}
      models={models}
      onFreed={() => add.reset()}
      onSubmit={(body) =>
        add.mutate(
          { body },
          {
            onSuccess: ({ id }) => {
              close();
              onAdded(id);
            },
          },
        )
      }
    />
  );
  const tabs = [
    {
      value: 'catalog' as const,
      label: 'Catalog',
      content:
        chosen === null ? (
          <CatalogList served={new Set(models.map(({ id }) => id))} onChoose={choose} />
        ) : (
          <>
            <div className="mb-4 rounded-lg border border-line px-4 py-3">
              <CatalogEntry model={chosen} />
              <Button size="small" className="mt-3" onClick={() => choose(null)}>
                Choose another model
              </Button>
            </div>
            {details}
          </>
        ),
    },
    { value: 'file' as const, label: 'File or URL', content: details },
    { value: 'server' as const, label: 'Other server', content: details },
  ];
  return (
    <Dialog
      modal
      open={open}
      onClose={close}
      size="medium"
      title="Add model"
      hint="No restart needed. The model stays available after restarts."
      actions={
        <>
          <Button onClick={close}>Cancel</Button>
          {(way !== 'catalog' || chosen !== null) && (
            <Button kind="primary" type="submit" form={form} busy={add.isPending}>
              {way === 'catalog' && chosen?.downloaded === false
                ? `Download ${bytes(chosen.size_bytes)}`
                : 'Add model'}
            </Button>
          )}
        </>
      }
    >
      <Tabs
        label="Where the model comes from"
        value={way}
        onChange={(next) => {
          add.reset();
          setWay(next);
        }}
        tabs={tabs.map((tab) => ({ ...tab, content: <div className="pt-4">{tab.content}</div> }))}
      />
    </Dialog>
  );
}

interface ModelFormProps {
  id: string;
  way: Way;
  /** The chosen model of the catalog; only if `way` is `catalog`. */
  chosen: CatalogModel | null;
  error: Parameters<typeof Refusal>[0]['error'];
  models: AddModelDialogProps['models'];
  onFreed: () => void;
  onSubmit: (body: Body) => void;
}

const SERVER = 'replicas[0].';

function ModelForm({ id: form, way, chosen, error, models, onFreed, onSubmit }: ModelFormProps) {
  const [id, setId] = useState('');
  const [source, setSource] = useState('');
  const [offer, setOffer] = useState(NEW_OFFER);
  const [server, setServer] = useState(NEW_SERVER);
  const [modality, setModality] = useState<Modality>('text->text');
  const [keep, setKeep] = useState(false);
  const [errors, setErrors] = useState<FieldErrors>({});
  const isServer = way === 'server';
  const embeds = isServer
    ? returnsEmbeddings({ modality })
    : way === 'catalog' && chosen !== null && returnsEmbeddings(chosen);
  const submit = () => {
    const read = offerOf(embeds ? { ...offer, completion: '', input_cache_read: '' } : offer);
    const readServer = isServer ? serverOf(server, SERVER) : null;
    setErrors({ ...read.errors, ...readServer?.errors });
    if (read.errors !== null || (readServer !== null && readServer.errors !== null)) return;
    const { pricing, context_tokens: context } = read.value;
    onSubmit({
      ...(id.trim() !== '' && { id: id.trim() }),
      ...(readServer === null
        ? { source: way === 'catalog' ? (chosen?.id ?? '') : source.trim(), ...(keep && { keep }) }
        : {
            replicas: [readServer.value],
            // Some servers report that they take images.
            ...(modality !== 'text->text' && { modality }),
          }),
      pricing,
      ...(context !== null && { context_tokens: context }),
    });
  };
  return (
    <Form id={form} error={error} errors={errors} onSubmit={submit}>
      {way === 'file' && (
        <TextField
          name="source"
          label="Source"
          required
          mono
          maxLength={2048}
          autoComplete="off"
          spellCheck={false}
          placeholder="hf:owner/repo/file.gguf"
          hint="A GGUF file: hf:owner/repo/file.gguf[@revision], an https:// URL, or an absolute path on the machine of the service."
          value={source}
          onChange={({ target }) => setSource(target.value)}
        />
      )}
      <TextField
        name="id"
        label="Model ID"
        {...(!isServer && { aside: 'optional' })}
        required={isServer}
        maxLength={200}
        autoComplete="off"
        spellCheck={false}
        placeholder={isServer ? 'namespace/model' : (chosen?.id ?? 'Derived from the file name')}
        hint="The name that requests use"
        value={id}
        onChange={({ target }) => setId(target.value)}
      />
      {isServer && <ModalityField value={modality} onChange={setModality} />}
      {isServer && <ServerFields draft={server} onChange={setServer} prefix={SERVER} />}
      <OfferFields embeds={embeds} draft={offer} onChange={setOffer} />
      {!isServer && <KeepField value={keep} onChange={setKeep} />}
      <Refusal error={error} models={models} onFreed={onFreed} />
    </Form>
  );
}
