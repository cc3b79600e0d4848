import { Redirect, useSearch } from 'wouter';

/** Leads from the addresses of the pages that the Operations page has replaced. */
export default function Moved() {
  const search = useSearch();
  return <Redirect replace to={`/operator/operations${search && `?${search}`}`} />;
}
