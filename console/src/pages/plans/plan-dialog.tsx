import { Pencil } from 'lucide-react';
import { useId, type ReactNode } from 'react';
import type { QueryState } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import { Link } from '../../components/link.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Meter } from '../../components/meter.tsx';
import { Skeleton } from '../../components/states.tsx';
import { limitAmount, limitLabel, limitsSet, limitText } from '../../format/limits.ts';
import { whole } from '../../format/number.ts';
import type { AccountOfPlan } from './closeness.ts';
import { PlanForm } from './plan-form.tsx';
import { configured, type ConfiguredPlan, type Limits, type Plan } from './plan-yaml.ts';

/** Accounts that are listed; the others are on the Accounts page. */
const SHOWN = 10;

interface PlanDialogProps {
  /** Null: closed. */
  plan: Plan | null;
  plans: readonly Plan[];
  /** The accounts of each plan by its name. */
  users: QueryState<ReadonlyMap<string, readonly AccountOfPlan[]>>;
  isEditing: boolean;
  onEdit: (editing: boolean) => void;
  onClose: () => void;
}

/** A drawer with a plan, its accounts, and a form that writes its YAML. */
export function PlanDialog({ plan, plans, users, isEditing, onEdit, onClose }: PlanDialogProps) {
  const form = useId();
  const known = plan === null ? undefined : configured(plans).find(({ name }) => name === plan.name);
  const editing = isEditing && known !== undefined;
  return (
    <Dialog
      side
      open={plan !== null}
      onClose={editing ? () => onEdit(false) : onClose}
      modal={editing}
      title={editing ? `Edit plan ${known.name}` : `Plan ${plan?.name ?? ''}`}
      actions={
        editing && <FormActions form={form} action="Copy YAML" busy={false} onCancel={() => onEdit(false)} />
      }
    >
      {editing ? (
        <PlanForm id={form} initial={known} isNew={false} plans={plans} />
      ) : (
        plan && <Details plan={plan} users={users} onEdit={known && (() => onEdit(true))} />
      )}
    </Dialog>
  );
}

interface NewPlanDialogProps {
  open: boolean;
  plans: readonly Plan[];
  onClose: () => void;
}

const NEW_PLAN: ConfiguredPlan = { name: '', limits: {}, weight: 1 };

/** Writes the YAML of a new plan. */
export function NewPlanDialog({ open, plans, onClose }: NewPlanDialogProps) {
  const form = useId();
  return (
    <Dialog
      modal
      open={open}
      onClose={onClose}
      size="medium"
      title="New plan"
      actions={<FormActions form={form} action="Copy YAML" busy={false} onCancel={onClose} />}
    >
      <PlanForm id={form} initial={NEW_PLAN} isNew plans={plans} />
    </Dialog>
  );
}

interface DetailsProps {
  plan: Plan;
  users: PlanDialogProps['users'];
  /** Undefined: the plan is not in the configuration. */
  onEdit: (() => void) | undefined;
}

function Details({ plan, users, onEdit }: DetailsProps) {
  const { limits, weight } = plan;
  return (
    <div className="space-y-7">
      <div>
        <div className="mb-3 flex min-h-9 items-center justify-between gap-3">
          <span>{plan.default && <Badge tone="accent">Default</Badge>}</span>
          {onEdit !== undefined && (
            <Button size="small" icon={<Pencil className="size-3.5" aria-hidden="true" />} onClick={onEdit}>
              Edit
            </Button>
          )}
        </div>
        <PlanSection title="Limits">
          {limits === null ? (
            <p className="text-sm text-bad">
              The plan is not in the configuration. Requests of its accounts are refused.
            </p>
          ) : (
            <LimitList limits={limits} />
          )}
          {weight !== null && weight !== 1 && (
            <p className="mt-1.5 text-sm">Weight when a model is busy: {weight}</p>
          )}
          {plan.default && (
            <p className="mt-3 text-xs leading-5 text-ink-3">
              Accounts without an assigned plan use this plan, as set by{' '}
              <code className="font-mono text-xs text-ink-2">defaultPlan</code>.
            </p>
          )}
        </PlanSection>
      </div>
      {Object.entries(limits?.models ?? {}).map(([model, own]) => (
        <PlanSection key={model} title={<span className="break-all">Limits for {model}</span>}>
          <LimitList limits={own} />
        </PlanSection>
      ))}
      <PlanSection title="Accounts">
        {plan.accounts === 0 ? (
          <p className="text-sm text-ink-3">No accounts</p>
        ) : (
          <Loaded query={users} loading={<Skeleton className="h-24 w-full" />}>
            {(loaded) => <Accounts plan={plan} users={loaded.get(plan.name) ?? []} />}
          </Loaded>
        )}
      </PlanSection>
    </div>
  );
}

function PlanSection({ title, children }: { title: ReactNode; children: ReactNode }) {
  return (
    <section>
      <h3 className="mb-3 text-sm font-semibold">{title}</h3>
      {children}
    </section>
  );
}

/** The limits that are set. */
function LimitList({ limits }: { limits: Limits | NonNullable<Limits['models']>[string] }) {
  const set = limitsSet(limits);
  const { burst } = limits;
  if (set.length === 0 && burst === undefined) return <p className="text-sm text-ink-3">No limits</p>;
  return (
    <ul className="space-y-1.5 text-sm">
      {set.map(({ limit, bound }) => (
        <li key={limit}>{limitText(limit, bound)}</li>
      ))}
      {burst?.requests !== undefined && (
        <li className="text-ink-3">Burst of {whole(burst.requests)} requests</li>
      )}
      {burst?.tokens !== undefined && <li className="text-ink-3">Burst of {whole(burst.tokens)} tokens</li>}
    </ul>
  );
}

function Accounts({ plan, users }: { plan: Plan; users: readonly AccountOfPlan[] }) {
  return (
    <>
      <ul className="space-y-3.5">
        {users.slice(0, SHOWN).map(({ account: { id, name }, closest }) => (
          <li key={id} className="space-y-1.5 text-sm">
            <Link to={`/operator/accounts/${id}`} className="rounded-sm break-words hover:underline">
              {name}
            </Link>
            {closest !== null && (
              <Meter
                label={limitLabel(closest.limit)}
                used={Number(closest.used)}
                bound={Number(closest.bound)}
                text={`${limitAmount(closest.limit, closest.used)} of ${limitAmount(closest.limit, closest.bound)}`}
              />
            )}
          </li>
        ))}
      </ul>
      <ButtonLink
        size="small"
        className="mt-4"
        to={`/operator/accounts?plan=${encodeURIComponent(plan.name)}`}
      >
        {plan.accounts > SHOWN ? `View all ${whole(plan.accounts)} accounts` : 'View in Accounts'}
      </ButtonLink>
    </>
  );
}
