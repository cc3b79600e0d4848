import { useState } from 'react';
import { useAction } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { TextField } from '../../components/field.tsx';
import { useFieldErrors } from '../../components/field-errors.ts';
import { FormError } from '../../components/form-error.tsx';
import { Time } from '../../components/time.tsx';
import { useSession } from '../../state/session.tsx';

/** Name and email of the user. */
export function Profile() {
  const { user } = useSession();
  const [name, setName] = useState(user.name);
  const change = useAction('changeMe', {
    changes: ['getSession', 'listMembers', 'listUsers'],
    done: 'Name changed',
    quiet: true,
  });
  const errorAt = useFieldErrors(change.error);
  return (
    <Card
      title="Profile"
      hint={
        <>
          Joined <Time at={user.created_at} />
        </>
      }
      actions={user.operator && <Badge tone="accent">Operator</Badge>}
    >
      <form
        className="max-w-md space-y-4"
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate({ body: { name } }, { onSuccess: (me) => setName(me.name) });
        }}
      >
        <TextField
          label="Name"
          autoComplete="name"
          required
          maxLength={100}
          value={name}
          onChange={(event) => setName(event.target.value)}
          error={errorAt('name', name)}
        />
        <TextField
          label="Email"
          type="email"
          readOnly
          value={user.email}
          hint="Used to sign in. Cannot be changed."
        />
        <FormError error={change.error} fields={['name']} />
        <Button type="submit" busy={change.isPending} disabled={name.trim() === user.name}>
          Save
        </Button>
      </form>
    </Card>
  );
}
