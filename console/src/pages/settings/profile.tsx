import { useState } from 'react';
import { useAction } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { TextField } from '../../components/field.tsx';
import { Form, FormError } from '../../components/form.tsx';
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
      <Form
        error={change.error}
        className="max-w-md space-y-4"
        onSubmit={() => {
          change.mutate({ body: { name } }, { onSuccess: (me) => setName(me.name) });
        }}
      >
        <TextField
          name="name"
          label="Name"
          autoComplete="name"
          required
          maxLength={100}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <TextField
          label="Email"
          type="email"
          readOnly
          value={user.email}
          hint="Used to sign in. Cannot be changed."
        />
        <FormError error={change.error} />
        <Button type="submit" busy={change.isPending} disabled={name.trim() === user.name}>
          Save
        </Button>
      </Form>
    </Card>
  );
}
