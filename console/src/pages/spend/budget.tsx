import { Popover } from '@base-ui/react/popover';
import { Pencil } from 'lucide-react';
import { useState } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { together, useAll, useRead, type QueryState } from '../../api/queries.ts';
import { IconButton, TextButton } from '../../components/button.tsx';
import { DraftForm } from '../../components/draft-form.tsx';
import { LimitFields } from '../../components/limit-fields.tsx';
import { Meter } from '../../components/meter.tsx';
import { FORM_POPUP } from '../../components/popup.ts';
import { savingLimits } from '../../components/save-limits.ts';
import { limitErrors, typedLimits } from '../../format/limits.ts';
import { money } from '../../format/money.ts';
import type { Group } from '../../format/usage-groups.ts';
import type { Scope } from '../../state/account.ts';
import { useKeyRights } from '../../state/session.tsx';

/** A key or an account, which can have a monthly budget in USD. */
interface Budget {
  kind: 'key' | 'account';
  owner: Pick<ItemOf<'listAccounts'>, 'id' | 'name' | 'limits'>;
  /** The budget of the plan, which applies unless the account has its own. */
  ofPlan: string | undefined;
  mayEdit: boolean;
}

/** Maximum page size of the API. */
const PAGE = { limit: 1000 };

/** Loads the budgets of keys or accounts by their IDs. Never has data for other groups. */
export function useBudgets(scope: Scope, by: Group | null): QueryState<ReadonlyMap<string, Budget>> {
  const rightsOf = useKeyRights();
  const keys = useAll('listKeys', { query: { ...scope.query, ...PAGE } }, { enabled: by === 'key' });
  const isAccounts = by === 'account';
  const accounts = useAll('listAccounts', { query: PAGE }, { enabled: isAccounts });
  const plans = useRead('listPlans', undefined, { enabled: isAccounts });
  const ofPlan = (plan: string | null) =>
    plans.data?.data.find((one) => (plan === null ? one.default : one.name === plan))?.limits?.usd_per_month;
  const all: Budget[] | undefined = isAccounts
    ? plans.data &&
      accounts.data?.map((owner) => ({
        kind: 'account',
        owner,
        ofPlan: ofPlan(owner.plan),
        mayEdit: owner.status !== 'closed',
      }))
    : keys.data?.map((owner) => ({
        kind: 'key',
        owner,
        ofPlan: undefined,
        mayEdit: rightsOf(owner) === 'change',
      }));
  return {
    data: all && new Map(all.map((budget) => [budget.owner.id, budget])),
    ...together(isAccounts ? [accounts, plans] : [keys]),
  };
}

/** The amount of a budget, in USD; undefined: none. */
export const boundOf = (budget: Budget | undefined): string | undefined =>
  budget?.owner.limits?.usd_per_month ?? budget?.ofPlan;

/** How much of a budget is used, in USD, and a form that changes it. `budget` undefined: the group cannot have one. */
export function BudgetCell({ budget, used }: { budget: Budget | undefined; used: string }) {
  const [open, setOpen] = useState(false);
  const bound = boundOf(budget);
  if (budget === undefined || (bound === undefined && !budget.mayEdit))
    return <span className="text-ink-3">—</span>;
  const { owner, mayEdit } = budget;
  const isOfPlan = bound !== undefined && owner.limits?.usd_per_month === undefined;
  return (
    <div className="flex min-h-8 items-center gap-1">
      {bound !== undefined && (
        <div className="w-32 sm:w-40">
          <Meter
            label={
              <>
                <span className="sr-only">Budget of {owner.name}</span>{' '}
                <span className="max-sm:hidden">{isOfPlan && 'Plan'}</span>
              </>
            }
            used={Number(used)}
            bound={Number(bound)}
            text={`${money(used)} of ${money(bound)}`}
          />
        </div>
      )}
      {mayEdit && (
        <Popover.Root open={open} onOpenChange={setOpen}>
          <Popover.Trigger
            render={
              bound === undefined ? (
                <TextButton aria-label={`Set budget of ${owner.name}`}>Set budget</TextButton>
              ) : (
                <IconButton label={`Edit budget of ${owner.name}`}>
                  <Pencil />
                </IconButton>
              )
            }
          />
          <Popover.Portal>
            <Popover.Positioner
              sideOffset={4}
              align="end"
              collisionPadding={12}
              className="z-40 outline-none"
            >
              <Popover.Popup aria-label={`Budget of ${owner.name}`} className={FORM_POPUP}>
                <BudgetForm budget={budget} onSaved={() => setOpen(false)} />
              </Popover.Popup>
            </Popover.Positioner>
          </Popover.Portal>
        </Popover.Root>
      )}
    </div>
  );
}

function BudgetForm({ budget: { kind, owner, ofPlan }, onSaved }: { budget: Budget; onSaved: () => void }) {
  // It compares what is saved with what the form showed when it opened.
  const [save] = useState(() => savingLimits(kind, owner));
  return (
    <DraftForm
      action="Save"
      initial={typedLimits(owner.limits ?? {})}
      check={limitErrors}
      submit={(typed, changed) => save(typed, changed).then(onSaved)}
    >
      {(field) => (
        <LimitFields
          names={['usd_per_month']}
          field={field}
          placeholder={() => (ofPlan === undefined ? 'No budget' : `${money(ofPlan)} (plan)`)}
        />
      )}
    </DraftForm>
  );
}
