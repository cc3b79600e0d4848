import { useRef, useState } from 'react';
import { act } from '../../api/act.ts';
import type { Arguments, ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { EditDialog } from '../../components/edit-dialog.tsx';
import { Field, TextField } from '../../components/field.tsx';
import type { FieldOf } from '../../components/form.tsx';
import { SearchField } from '../../components/search-field.tsx';
import { Select } from '../../components/select.tsx';
import { Loaded, SkeletonRows } from '../../components/states.tsx';
import { Tabs } from '../../components/tabs.tsx';
import { generatesText, outputLabel } from '../../format/modality.ts';
import { bytes, whole } from '../../format/number.ts';
import { Refusal } from './model-activity.tsx';
import {
  NEW_OFFER,
  NEW_SERVER,
  offerOf,
  serverOf,
  type Modality,
  type OfferDraft,
  type ServerDraft,
} from './model-draft.ts';
import { KeepField, MODALITIES, OfferFields, ServerFields } from './model-forms.tsx';

type Body = Arguments<'addModel'>['body'];

type Way = 'catalog' | 'file' | 'server';

interface AddModelDialogProps {
  models: readonly ItemOf<'listServedModels'>[];
  /** ID of the catalog model that is selected initially; null: none. */
  suggested: string | null;
  onClose: () => void;
  onAdded: (id: string) => void;
}

interface Draft extends OfferDraft, ServerDraft {
  id: string;
  source: string;
  modality: Modality;
  keep: boolean;
}

const NEW_MODEL: Draft = {
  ...NEW_OFFER,
  ...NEW_SERVER,
  id: '',
  source: '',
  modality: 'text->text',
  keep: false,
};

const SERVER = 'replicas[0].';

export default function AddModelDialog({ models, suggested, onClose, onAdded }: AddModelDialogProps) {
  const [way, setWay] = useState<Way>('catalog');
  // Undefined: the suggested one.
  const [picked, setPicked] = useState<CatalogModel | null | undefined>();
  const catalog = useRead('listCatalog', undefined, { enabled: suggested !== null });
  const chosen =
    picked === undefined ? (catalog.data?.data.find(({ id }) => id === suggested) ?? null) : picked;
  const added = useRef<string>(null);
  const close = () => {
    onClose();
    if (added.current !== null) onAdded(added.current);
  };
  const isServer = way === 'server';
  const generatesWith = ({ modality }: Draft) =>
    isServer ? generatesText({ modality }) : way !== 'catalog' || chosen === null || generatesText(chosen);
  const read = (draft: Draft) => ({
    offer: offerOf(generatesWith(draft) ? draft : { ...draft, completion: '', input_cache_read: '' }),
    server: isServer ? serverOf(draft, SERVER) : null,
  });
  const add = async (draft: Draft) => {
    const { offer, server } = read(draft);
    if (offer.value === null) return;
    const { pricing, context_tokens: context } = offer.value;
    const { id, source, keep, modality } = draft;
    const body: Body = {
      ...(id.trim() !== '' && { id: id.trim() }),
      ...(server === null
        ? { source: way === 'catalog' ? (chosen?.id ?? '') : source.trim(), ...(keep && { keep }) }
        : {
            ...(server.value !== null && { replicas: [server.value] }),
            // Some servers report that they take images.
            ...(modality !== 'text->text' && { modality }),
          }),
      pricing,
      ...(context !== null && { context_tokens: context }),
    };
    const model = await act('addModel', { body }, { done: (one) => `${one.id} was added` });
    added.current = model.id;
  };
  const action =
    way === 'catalog' && chosen === null
      ? null
      : way === 'catalog' && chosen?.downloaded === false
        ? `Download ${bytes(chosen.size_bytes)}`
        : 'Add model';
  return (
    <EditDialog
      size="medium"
      title="Add model"
      hint="No restart needed. The model stays available after restarts."
      action={action}
      initial={NEW_MODEL}
      check={(draft) => {
        const { offer, server } = read(draft);
        return { ...offer.errors, ...server?.errors };
      }}
      submit={add}
      renderError={(error) => <Refusal error={error} models={models} />}
      onClose={close}
    >
      {(draft, set, field) => {
        const details = (
          <ModelFields {...{ way, chosen, draft, set, field }} generates={generatesWith(draft)} />
        );
        const tabs = [
          {
            value: 'catalog' as const,
            label: 'Catalog',
            content:
              chosen === null ? (
                <CatalogList served={new Set(models.map(({ id }) => id))} onChoose={setPicked} />
              ) : (
                <>
                  <div className="mb-4 rounded-lg border border-line px-4 py-3">
                    <CatalogEntry model={chosen} />
                    <Button size="small" className="mt-3" onClick={() => setPicked(null)}>
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
          <Tabs
            label="Where the model comes from"
            value={way}
            onChange={setWay}
            tabs={tabs.map((tab) => ({ ...tab, content: <div className="pt-4">{tab.content}</div> }))}
          />
        );
      }}
    </EditDialog>
  );
}

interface ModelFieldsProps {
  way: Way;
  /** The chosen model of the catalog; only if `way` is `catalog`. */
  chosen: CatalogModel | null;
  draft: Draft;
  set: (changed: Partial<Draft>) => void;
  field: FieldOf<Draft>;
  generates: boolean;
}

function ModelFields({ way, chosen, draft, set, field, generates }: ModelFieldsProps) {
  const isServer = way === 'server';
  return (
    <div className="space-y-4">
      {way === 'file' && (
        <TextField
          label="Source"
          required
          mono
          maxLength={2048}
          autoComplete="off"
          spellCheck={false}
          placeholder="hf:owner/repo/file.gguf"
          hint="A GGUF file: hf:owner/repo/file.gguf[@revision], an https:// URL, or an absolute path on the machine of the service."
          {...field('source')}
        />
      )}
      <TextField
        label="Model ID"
        {...(!isServer && { aside: 'optional' })}
        required={isServer}
        maxLength={200}
        autoComplete="off"
        spellCheck={false}
        placeholder={isServer ? 'namespace/model' : (chosen?.id ?? 'Derived from the file name')}
        hint="The name that requests use"
        {...field('id')}
      />
      {isServer && (
        <>
          <Field name="modality" label="Kind of model">
            <Select value={draft.modality} choices={MODALITIES} onChange={(modality) => set({ modality })} />
          </Field>
          <ServerFields
            dialect={draft.dialect}
            onDialect={(dialect) => set({ dialect })}
            field={field}
            prefix={SERVER}
          />
        </>
      )}
      <OfferFields generates={generates} field={field} />
      {!isServer && <KeepField value={draft.keep} onChange={(keep) => set({ keep })} />}
    </div>
  );
}

type CatalogModel = ItemOf<'listCatalog'>;

interface CatalogListProps {
  served: ReadonlySet<string>;
  onChoose: (model: CatalogModel) => void;
}

function CatalogList({ served, onChoose }: CatalogListProps) {
  const [search, setSearch] = useState('');
  const catalog = useRead('listCatalog', undefined);
  const wanted = search.trim().toLowerCase();
  return (
    <div className="space-y-3">
      <SearchField label="Search the catalog" value={search} onChange={setSearch} />
      <Loaded query={catalog} loading={<SkeletonRows rows={5} />}>
        {({ data, available_memory_bytes: available }) => {
          const shown = data.filter(({ id, summary }) => `${id} ${summary}`.toLowerCase().includes(wanted));
          return (
            <>
              <p role="status" className="min-h-4 text-xs text-ink-3 tabular-nums">
                {bytes(available)} of memory is available on the machine that runs the service.
                {shown.length === 0 && ' No matching models in the catalog.'}
              </p>
              <ul className="divide-y divide-line">
                {shown.map((model) => (
                  <li key={model.id}>
                    <button
                      type="button"
                      disabled={served.has(model.id)}
                      className="-mx-2 block w-[calc(100%+1rem)] rounded-lg px-2 py-3 text-left transition-colors hover:bg-hover disabled:pointer-events-none"
                      onClick={() => onChoose(model)}
                    >
                      <CatalogEntry model={model} isServed={served.has(model.id)} />
                    </button>
                  </li>
                ))}
              </ul>
            </>
          );
        }}
      </Loaded>
    </div>
  );
}

/** A model of the catalog, with what an operator needs to choose it. */
function CatalogEntry({ model, isServed = false }: { model: CatalogModel; isServed?: boolean }) {
  const facts = [
    `${bytes(model.size_bytes)} file`,
    `uses ${bytes(model.memory_bytes)} of memory`,
    `${whole(model.context_length)} tokens of context`,
    model.quantization,
    model.license,
    ...(model.tools ? ['tools'] : []),
    ...(model.reasoning ? ['reasoning'] : []),
    ...[outputLabel(model)?.toLowerCase() ?? []].flat(),
  ];
  return (
    <>
      <span className="flex flex-wrap items-center justify-between gap-x-3 gap-y-1">
        <span className="text-sm font-medium wrap-anywhere text-ink">{model.id}</span>
        <Fit model={model} isServed={isServed} />
      </span>
      <span className="mt-0.5 block text-xs text-ink-2 first-letter:uppercase">{model.summary}</span>
      <span className="mt-1 flex flex-wrap gap-x-3 text-xs text-ink-3 tabular-nums">
        {facts.map((fact) => (
          <span key={fact}>{fact}</span>
        ))}
      </span>
    </>
  );
}

function Fit({ model, isServed }: { model: CatalogModel; isServed: boolean }) {
  if (isServed) return <Badge>Already added</Badge>;
  if (!model.fits) return <Badge tone="warn">Not enough memory</Badge>;
  return <Badge tone="good">{model.downloaded ? 'Downloaded' : 'Fits'}</Badge>;
}
