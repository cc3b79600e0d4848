import { useId, useState, type ReactNode } from 'react';
import type { ApiError } from '../api/client.ts';
import { confirm } from './confirm.tsx';
import { Dialog, FormActions } from './dialog.tsx';
import type { FieldErrors } from './field-errors.ts';
import { Form, FormError, useSubmit } from './form.tsx';

interface EditDialogProps<Draft extends object> {
  title: ReactNode;
  /** One line below the title. */
  hint?: ReactNode;
  /** Label of the submit button; null: nothing can be submitted yet. */
  action: string | null;
  danger?: boolean;
  /** Label of the cancel button. */
  cancel?: string;
  size?: 'small' | 'medium' | 'large';
  side?: boolean;
  /** The values of the fields at first. Later values are ignored. */
  initial: Draft;
  /** Returns the invalid fields. */
  check?: (draft: Draft) => FieldErrors;
  /**
   * Makes the change. `changed` has only the values that the user changed, so that other values keep what somebody else
   * has set in the meantime. The dialog shows the `ApiError`, at the field that it is about.
   */
  submit: (draft: Draft, changed: Partial<Draft>) => Promise<unknown>;
  /** Called after success, and when the user leaves; what was typed is then only dropped after a question. */
  onClose: () => void;
  /** Drops what was typed without a question, such as a password. */
  disposable?: boolean;
  /** Shows an error that is not about a field. Default: its message. */
  renderError?: (error: ApiError) => ReactNode;
  /** `invalid` has the names of the parameters with errors. */
  children: (draft: Draft, set: (values: Partial<Draft>) => void, invalid: readonly string[]) => ReactNode;
}

/** A dialog with a form. Mounted only while it is open, which drops what was typed. */
export function EditDialog<Draft extends object>(props: EditDialogProps<Draft>) {
  const {
    title,
    hint,
    action,
    danger = false,
    cancel = 'Cancel',
    size = 'small',
    side = false,
    check,
    submit,
    onClose,
    disposable = false,
  } = props;
  const form = useId();
  const [initial] = useState(props.initial);
  const [draft, setDraft] = useState(initial);
  const [errors, setErrors] = useState<FieldErrors>({});
  const { busy, error, submit: run } = useSubmit();
  const changed = changesOf(initial, draft);
  const leave = async () => {
    const asks = !busy && !disposable && Object.keys(changed).length > 0;
    const question = {
      title: 'Discard what you entered?',
      action: 'Discard',
      children: <p>It has not been saved.</p>,
    };
    if (!asks || (await confirm(question))) onClose();
  };
  const save = async () => {
    const invalid = check?.(draft) ?? {};
    setErrors(invalid);
    if (Object.keys(invalid).length > 0) return;
    if (await run(() => submit(draft, changed))) onClose();
  };
  return (
    <Dialog
      modal
      open
      side={side}
      size={size}
      title={title}
      hint={hint}
      onClose={() => void leave()}
      actions={
        <FormActions
          form={form}
          action={action}
          busy={busy}
          danger={danger}
          cancel={cancel}
          onCancel={() => void leave()}
        />
      }
    >
      <Form id={form} error={error} errors={errors} onSubmit={() => void save()}>
        {props.children(draft, (values) => setDraft((now) => ({ ...now, ...values })), [
          ...Object.keys(errors),
          ...(error?.param == null ? [] : [error.param]),
        ])}
        {error !== null && props.renderError !== undefined ? (
          props.renderError(error)
        ) : (
          <FormError error={error} />
        )}
      </Form>
    </Dialog>
  );
}

/** Returns the values of `after` that differ from those of `before`, compared as JSON. */
function changesOf<Draft extends object>(before: Draft, after: Draft): Partial<Draft> {
  const changed = (Object.keys(after) as (keyof Draft)[]).filter(
    (name) => JSON.stringify(after[name]) !== JSON.stringify(before[name]),
  );
  return Object.fromEntries(changed.map((name) => [name, after[name]])) as Partial<Draft>;
}
