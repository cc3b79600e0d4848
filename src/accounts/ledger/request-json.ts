import {
  COLUMNS,
  type Column,
  type Ledger,
  type LedgerRow,
  type NullOf,
  type SqlName,
} from '../../database/ledger-columns.ts';
import { perMillionText, usdText } from './cost.ts';
import { NOTE_NAMES, type RequestNote } from './request-notes.ts';

type FieldOf<P extends keyof Ledger> = Ledger[P] extends { json: infer Name extends string | null }
  ? Name
  : SqlName<P>;

type JsonOf<C extends Ledger[keyof Ledger]> =
  | (C extends { values: readonly (infer V)[] } ? V : Values[C['kind']])
  | NullOf<C>;

/** The JSON of each kind of column. */
interface Values {
  text: string;
  integer: number;
  flag: boolean;
  time: string;
  price: string;
  pico: string;
}

/** A row of the ledger, as the database returns it, with the names of its notes, separated by spaces. */
export type RequestRow = LedgerRow & { notes: string };

/** A row of the ledger, as the management API and `ledger export` return it. */
export type RequestJson = {
  [P in keyof Ledger as Exclude<FieldOf<P>, null | `price.${string}`>]: JsonOf<Ledger[P]>;
} & {
  price: {
    [P in keyof Ledger as FieldOf<P> extends `price.${infer Part}` ? Part : never]: JsonOf<Ledger[P]>;
  };
  notes: RequestNote[];
};

/**
 * A value of a row that is part of the JSON, as `field` or as `part` of the object `field`. `names`: a list of names.
 */
export interface RequestField extends Pick<Column, 'name' | 'values' | 'nullable' | 'description'> {
  kind: Column['kind'] | 'names';
  field: string;
  part: string | undefined;
  /** Its column in CSV. */
  csv: string;
}

const NOTES: RequestField = {
  name: 'notes',
  kind: 'names',
  values: NOTE_NAMES,
  description:
    'What is unusual about the request. The filter `note` of `GET /api/requests` explains the names.',
  field: 'notes',
  part: undefined,
  csv: 'notes',
};

/** The fields of a request, in their order in JSON and CSV. */
export const REQUEST_FIELDS: readonly RequestField[] = [
  ...COLUMNS.flatMap((column): RequestField[] => {
    if (column.json === null) return [];
    const { json = column.name } = column;
    const [field = '', part] = json.split('.');
    return [{ ...column, field, part, csv: json.replace('.', '_') }];
  }),
  NOTES,
];

export function requestJson(row: RequestRow): RequestJson {
  const json: Record<string, unknown> = {};
  for (const field of REQUEST_FIELDS) {
    const value = valueOf(field, row);
    if (field.part === undefined) json[field.field] = value;
    else json[field.field] = Object.assign(json[field.field] ?? {}, { [field.part]: value });
  }
  // `REQUEST_FIELDS` and the type follow from the same table.
  return json as RequestJson;
}

/** Returns the value of a field in JSON. */
export function valueOf(
  { name, kind }: RequestField,
  row: RequestRow,
): string | number | boolean | null | string[] {
  const value = row[name as keyof RequestRow];
  if (value === null) return null;
  switch (kind) {
    case 'flag':
      return value === 1;
    case 'names':
      return value === '' ? [] : String(value).split(' ');
    case 'time':
      return new Date(value).toISOString();
    case 'price':
      return perMillionText(Number(value));
    case 'pico':
      return usdText(BigInt(value));
    default:
      return value;
  }
}
