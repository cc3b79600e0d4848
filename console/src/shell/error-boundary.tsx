import { RotateCw } from 'lucide-react';
import { Component, type ErrorInfo, type ReactNode } from 'react';
import { Button } from '../components/button.tsx';

interface Props {
  /** Path of the page. A new path clears the error. */
  path: string;
  children: ReactNode;
}

interface State {
  failed: boolean;
  path: string;
}

/**
 * Shows an error page in place of a page that throws while rendering, and logs the error. A common cause is an
 * update of the service, which removes the files of the open page.
 */
export class ErrorBoundary extends Component<Props, State> {
  override state = { failed: false, path: this.props.path };

  static getDerivedStateFromError(): Partial<State> {
    return { failed: true };
  }

  static getDerivedStateFromProps({ path }: Props, state: State): State | null {
    return path === state.path ? null : { failed: false, path };
  }

  override componentDidCatch(error: unknown, { componentStack }: ErrorInfo): void {
    console.error('The page failed to render:', error, componentStack);
  }

  override render() {
    if (!this.state.failed) return this.props.children;
    return (
      <div role="alert" className="flex min-h-[60dvh] flex-col items-center justify-center px-6 text-center">
        <h1 className="text-base font-semibold">This page failed to load</h1>
        <p className="mt-1 max-w-md text-sm text-ink-3">
          The service may have been updated since you opened the console. Reload the page to get the current
          version. Your data is not affected.
        </p>
        <Button className="mt-5" kind="primary" icon={<RotateCw />} onClick={() => location.reload()}>
          Reload page
        </Button>
      </div>
    );
  }
}
