import { Form as Base } from '@base-ui/react/form';
import {
  createContext,
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type ChangeEvent,
  type ReactNode,
} from 'react';
import { flushSync } from 'react-dom';
import { ApiError } from '../api/client.ts';
import { notify } from '../notify.ts';
import { CodeText } from './code-text.tsx';
import { isAbout, type FieldErrors } from './field-errors.ts';
import { Notice } from './states.tsx';

interface FormProps {
  /** For a submit button outside of the form. */
  id?: string;
  /** Why the service refused the last submission. Shown at the field that it is about, or by `FormError`. */
  error?: ApiError | null;
  errors?: FieldErrors;
  /** Called if the browser finds no invalid field. */
  onSubmit: () => void;
  className?: string;
  children: ReactNode;
}

interface Fields {
  names: ReadonlySet<string>;
  /** Adds a field. The returned function removes it. */
  add: (name: string) => () => void;
}

const NO_ERRORS: FieldErrors = {};
const Context = createContext<Fields>({ names: new Set(), add: () => () => {} });

/**
 * A form. Each field whose `name` is the API's name of a parameter shows the error about it, until its value changes.
 * After a submission, the first invalid field gets the focus.
 */
export function Form({
  id,
  error = null,
  errors = NO_ERRORS,
  onSubmit,
  className = 'space-y-4',
  children,
}: FormProps) {
  const [names, setNames] = useState<ReadonlySet<string>>(new Set());
  const add = useCallback((name: string) => {
    setNames((others) => new Set([...others, name]));
    return () => setNames((others) => new Set([...others].filter((other) => other !== name)));
  }, []);
  const fields = useMemo(() => ({ names, add }), [names, add]);
  const all: FieldErrors = useMemo(() => {
    const refused = [...names].flatMap((name) =>
      isAbout(error, name) ? [[name, error.message] as const] : [],
    );
    return { ...Object.fromEntries(refused), ...errors };
  }, [names, error, errors]);
  // Base UI does not submit a form with errors, but other fields may have been corrected, or the cause may be gone.
  const [dismissed, setDismissed] = useState<FieldErrors | null>(null);
  return (
    <Context value={fields}>
      <Base
        id={id}
        errors={dismissed === all ? NO_ERRORS : all}
        onSubmitCapture={() => flushSync(() => setDismissed(all))}
        onFormSubmit={onSubmit}
        className={className}
      >
        {children}
      </Base>
    </Context>
  );
}

export function useSubmit(): {
  busy: boolean;
  error: ApiError | null;
  /**
   * Makes the change, unless one is being made. Resolves to whether it succeeded and the form is still shown. `error` says
   * why not, or a toast, if the form is gone.
   */
  submit: (change: () => Promise<unknown>) => Promise<boolean>;
} {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const isShown = useRef(true);
  useEffect(() => {
    isShown.current = true;
    return () => void (isShown.current = false);
  }, []);
  const submit = async (change: () => Promise<unknown>): Promise<boolean> => {
    if (busy) return false;
    setBusy(true);
    setError(null);
    try {
      await change();
      return isShown.current;
    } catch (thrown) {
      if (!(thrown instanceof ApiError)) throw thrown;
      if (isShown.current) setError(thrown);
      else notify.error(thrown.message);
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { busy, error, submit };
}

export interface DraftOptions<Draft extends object> {
  /** The values of the fields at first. Later values are ignored. */
  initial: Draft;
  check?: ((draft: Draft) => FieldErrors) | undefined;
  /**
   * Makes the change. `changed` has only the values that the user changed, so that a request does not undo changes of others.
   * The form shows the `ApiError`, at the field that it is about.
   */
  submit: (draft: Draft, changed: Partial<Draft>) => Promise<unknown>;
}

/** Returns the props of the text field for a value. `name`: the API's name of the parameter, if it is not that of the value. */
export type FieldOf<Draft extends object> = (
  key: keyof { [Key in keyof Draft as Draft[Key] extends string ? Key : never]: unknown } & string,
  name?: string,
) => { name: string; value: string; onChange: (event: ChangeEvent<HTMLInputElement>) => void };

export function useDraft<Draft extends object>({ initial: first, check, submit }: DraftOptions<Draft>) {
  const [initial] = useState(first);
  const [draft, setDraft] = useState(initial);
  const [errors, setErrors] = useState<FieldErrors>({});
  const { busy, error, submit: run } = useSubmit();
  const changed = changesOf(initial, draft);
  const set = (values: Partial<Draft>) => setDraft((now) => ({ ...now, ...values }));
  const field: FieldOf<Draft> = (key, name = key) => ({
    name,
    value: String(draft[key]),
    // The key is one of a text.
    onChange: ({ target }) => set({ [key]: target.value } as Partial<Draft>),
  });
  /** Resolves to whether the change was made and the form is still shown. */
  const save = async (): Promise<boolean> => {
    const invalid = check?.(draft) ?? {};
    setErrors(invalid);
    return Object.keys(invalid).length === 0 && (await run(() => submit(draft, changed)));
  };
  return { draft, set, field, errors, error, busy, changed, save };
}

/** Returns the values of `after` that differ from those of `before`, compared as JSON. */
function changesOf<Draft extends object>(before: Draft, after: Draft): Partial<Draft> {
  const changed = (Object.keys(after) as (keyof Draft)[]).filter(
    (name) => JSON.stringify(after[name]) !== JSON.stringify(before[name]),
  );
  return Object.fromEntries(changed.map((name) => [name, after[name]])) as Partial<Draft>;
}

/** Tells the form around a field that the field shows the errors about a parameter. */
export function useFormField(name: string | undefined): void {
  const { add } = useContext(Context);
  useLayoutEffect(() => (name === undefined ? undefined : add(name)), [add, name]);
}

interface FormErrorProps {
  error: ApiError | null;
  /** Shows an error that is not about a field. Default: its message. */
  renderError?: ((error: ApiError) => ReactNode) | undefined;
}

/** Shows an error, unless a field of the form around it does. */
export function FormError({ error, renderError }: FormErrorProps) {
  const { names } = useContext(Context);
  if (error !== null && renderError !== undefined) return renderError(error);
  if (error === null || [...names].some((name) => isAbout(error, name))) return null;
  return (
    <Notice tone="bad">
      <CodeText text={error.message} />
    </Notice>
  );
}
