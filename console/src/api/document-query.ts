import { useQuery } from '@tanstack/react-query';
import type { ApiError } from './client.ts';
import { readDocument, type ApiDocument } from './document.ts';

/** Loads the OpenAPI document once. */
export function useDocument() {
  return useQuery<ApiDocument, ApiError>({
    queryKey: ['document'],
    queryFn: ({ signal }) => readDocument(signal),
    staleTime: Infinity,
  });
}
