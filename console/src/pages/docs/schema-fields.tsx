import type { Schema } from '../../api/document.ts';
import { CodeText } from '../../components/code-text.tsx';
import { LazyDisclosure } from '../../components/disclosure.tsx';
import { shapeOf, type SchemaField, type Schemas, type Shape } from './schema.ts';

/** Which fields are marked: required ones in requests, optional ones in responses. */
type Marked = 'required' | 'optional';

interface SchemaFieldsProps {
  schema: Schema;
  schemas: Schemas;
  marked: Marked;
}

/** The fields of a schema. Nested fields are collapsed. */
export function SchemaFields({ schema, schemas, marked }: SchemaFieldsProps) {
  return <Parts shape={shapeOf(schema, schemas)} schemas={schemas} marked={marked} />;
}

interface PartsProps {
  shape: Shape;
  schemas: Schemas;
  marked: Marked;
}

function Parts({ shape, schemas, marked }: PartsProps) {
  if (shape.variants.length > 0) return <Variants {...{ shape, schemas, marked }} />;
  if (shape.fields.length === 0) return <p className="text-sm text-ink-3">{shape.type}</p>;
  return (
    <ul className="divide-y divide-line">
      {shape.fields.map((field) => (
        <li key={field.name} className="py-2.5">
          <FieldLine field={field} schemas={schemas} marked={marked} />
        </li>
      ))}
    </ul>
  );
}

function Variants({ shape: { variants }, schemas, marked }: PartsProps) {
  return (
    <div>
      <p className="pt-2 text-xs font-medium text-ink-3">One of</p>
      <ul className="divide-y divide-line">
        {variants.map((variant, index) => {
          const shape = shapeOf(variant, schemas);
          return (
            // Variants have no name and never change order.
            <li key={index} className="py-2.5">
              <span className="font-mono text-xs text-ink-2">{shape.type}</span>
              {shape.fields.length + shape.variants.length > 0 && <Parts {...{ shape, schemas, marked }} />}
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function FieldLine({ field, schemas, marked }: Omit<PartsProps, 'shape'> & { field: SchemaField }) {
  const shape = shapeOf(field.schema, schemas);
  return (
    <>
      <ShapeLine
        name={field.name}
        mark={field.required === (marked === 'required') ? marked : null}
        shape={shape}
      />
      {shape.fields.length + shape.variants.length > 0 && (
        // Schemas may be recursive.
        <LazyDisclosure className="mt-1.5" label={`Fields of ${field.name}`}>
          {() => (
            <div className="mt-1 ml-1.5 border-l border-line pl-3.5">
              <Parts {...{ shape, schemas, marked }} />
            </div>
          )}
        </LazyDisclosure>
      )}
    </>
  );
}

export function ShapeLine({ name, mark, shape }: { name: string; mark: Marked | null; shape: Shape }) {
  return (
    <>
      <p className="flex flex-wrap items-baseline gap-x-2 gap-y-0.5">
        <code className="font-mono text-xs font-semibold break-all text-ink">{name}</code>
        <span className="text-xs text-ink-3">{shape.type}</span>
        {mark !== null && (
          <span className={`text-2xs font-medium ${mark === 'required' ? 'text-warn' : 'text-ink-3'}`}>
            {mark}
          </span>
        )}
      </p>
      {shape.description !== null && (
        <p className="mt-0.5 text-xs leading-5 text-ink-2">
          <CodeText text={shape.description} />
        </p>
      )}
      {shape.values.length > 0 && (
        <p className="mt-1 flex flex-wrap gap-1">
          {shape.values.map((value) => (
            <code
              key={value}
              className="rounded bg-sunken px-1.5 font-mono text-2xs leading-5 break-all text-ink-2"
            >
              {value}
            </code>
          ))}
        </p>
      )}
      {shape.constraints.length > 0 && (
        <p className="mt-0.5 text-2xs leading-4 break-words text-ink-3">{shape.constraints.join(' · ')}</p>
      )}
    </>
  );
}
