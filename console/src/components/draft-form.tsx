import type { ReactNode } from 'react';
import type { ApiError } from '../api/client.ts';
import { Button } from './button.tsx';
import { Form, FormError, useDraft, type DraftOptions, type FieldOf } from './form.tsx';

interface DraftFormProps<Draft extends object> extends DraftOptions<Draft> {
  /** Label of the submit button. */
  action: string;
  /** Shows an error that is not about a field. Default: its message. */
  renderError?: (error: ApiError) => ReactNode;
  /** Below the submit button. */
  below?: ReactNode;
  children: (field: FieldOf<Draft>) => ReactNode;
}

/** A form on a page of its own, such as sign-in, or in a popover. */
export function DraftForm<Draft extends object>(props: DraftFormProps<Draft>) {
  const { field, errors, error, busy, save } = useDraft(props);
  return (
    <Form error={error} errors={errors} onSubmit={() => void save()}>
      {props.children(field)}
      {error !== null && props.renderError !== undefined ? (
        props.renderError(error)
      ) : (
        <FormError error={error} />
      )}
      <Button kind="primary" type="submit" className="w-full" busy={busy}>
        {props.action}
      </Button>
      {props.below}
    </Form>
  );
}
