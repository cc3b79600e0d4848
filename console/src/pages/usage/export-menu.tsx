import { useMutation } from '@tanstack/react-query';
import { Download, FileSpreadsheet } from 'lucide-react';
import { callAll, type Arguments } from '../../api/client.ts';
import { Button } from '../../components/button.tsx';
import { Menu, MenuItem } from '../../components/menu.tsx';
import { saveFile } from '../../components/save-file.ts';
import { notify } from '../../notify.ts';
import type { Scope } from '../../state/scope.ts';
import { csvOf } from './csv.ts';
import { CHART_SPLITS, type Selection } from './selection.ts';
import { usageQuery } from './use-usage.ts';

/** Downloads usage as CSV, as shown or by day, model and key. */
export function ExportMenu({ scope, selection }: { scope: Scope; selection: Selection }) {
  const read = useMutation({
    mutationFn: (query: Arguments<'readUsage'>['query']) => callAll('readUsage', { query }),
    onSuccess: () => notify.success('CSV file downloaded'),
    onError: (error) => notify.error(error.message),
  });
  const { unit, split, days } = selection;
  const save = (by: readonly string[]) => {
    const query = { ...usageQuery(scope, selection, days), by: by.join(',') };
    read.mutate(query, {
      onSuccess: (rows) =>
        saveFile(`usage-${days.from}-${days.to}-by-${by.join('-')}.csv`, csvOf(by, rows), 'text/csv'),
    });
  };
  const shown = split === 'none' ? [unit] : [unit, split];
  return (
    <Menu
      trigger={
        <Button icon={<Download className="size-4" aria-hidden="true" />} busy={read.isPending}>
          Export CSV
        </Button>
      }
    >
      <MenuItem icon={<FileSpreadsheet aria-hidden="true" />} onClick={() => save(shown)}>
        By {unit}
        {split !== 'none' && ` and ${CHART_SPLITS[split].toLowerCase()}`} (as shown)
      </MenuItem>
      <MenuItem
        icon={<FileSpreadsheet aria-hidden="true" />}
        onClick={() => save(scope.all ? ['day', 'account', 'model', 'key'] : ['day', 'model', 'key'])}
      >
        By day, {scope.all && 'account, '}model and key
      </MenuItem>
    </Menu>
  );
}
