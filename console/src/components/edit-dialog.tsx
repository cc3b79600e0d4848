import { useId, type ReactNode } from 'react';
import type { ApiError } from '../api/client.ts';
import { Button } from './button.tsx';
import { confirm } from './confirm.tsx';
import { Dialog } from './dialog.tsx';
import { Form, FormError, useDraft, type DraftOptions, type FieldOf } from './form.tsx';

interface EditDialogProps<Draft extends object> extends DraftOptions<Draft> {
  title: ReactNode;
  hint?: ReactNode;
  /** Label of the submit button; null: nothing can be submitted yet. */
  action: string | null;
  danger?: boolean;
  cancel?: string;
  size?: 'small' | 'medium' | 'large';
  side?: boolean;
  /** Called after success, and when the user leaves; what was typed is then only dropped after a question. */
  onClose: () => void;
  /** Drops what was typed without a question, such as a password. */
  disposable?: boolean;
  /** Shows an error that is not about a field. Default: its message. */
  renderError?: (error: ApiError) => ReactNode;
  /** `field` returns the props of a text field. `invalid` has the names of the parameters with errors. */
  children: (
    draft: Draft,
    set: (values: Partial<Draft>) => void,
    field: FieldOf<Draft>,
    invalid: readonly string[],
  ) => ReactNode;
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
    onClose,
    disposable = false,
  } = props;
  const form = useId();
  const { draft, set, field, errors, error, busy, changed, save } = useDraft(props);
  const leave = async () => {
    const asks = !busy && !disposable && Object.keys(changed).length > 0;
    const question = {
      title: 'Discard what you entered?',
      action: 'Discard',
      children: <p>It has not been saved.</p>,
    };
    if (!asks || (await confirm(question))) onClose();
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
        <>
          <Button onClick={() => void leave()}>{cancel}</Button>
          {action !== null && (
            <Button kind={danger ? 'danger' : 'primary'} type="submit" form={form} busy={busy}>
              {action}
            </Button>
          )}
        </>
      }
    >
      <Form
        id={form}
        error={error}
        errors={errors}
        onSubmit={() => void save().then((isSaved) => isSaved && onClose())}
      >
        {props.children(draft, set, field, [
          ...Object.keys(errors),
          ...(error?.param == null ? [] : [error.param]),
        ])}
        <FormError error={error} renderError={props.renderError} />
      </Form>
    </Dialog>
  );
}
